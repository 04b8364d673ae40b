"""Counting a model's parameters, grouped by how they are stored and split.

The counts follow the modules that vLLM builds (v0.32.0 model_executor/models/{llama,qwen2,qwen3,
qwen3_moe,mixtral,minimax_m2,deepseek_v2}.py): column- and row-parallel matrices are split over
tensor parallelism, norms, routers and MLA's down projections are held whole by every rank, the
vocabulary is padded to a multiple of 64.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvscale.core.model.architectures import Architecture, Attention, Mixture, QkNorm
from kvscale.core.model.dimensions import Dimensions, Experts, Latent
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.quantization import Quantization
from kvscale.core.model.shape import WeightGroup

VOCABULARY_PADDING = 64
"""vllm v0.32.0 model_executor/layers/vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE."""


def padded_vocabulary(size: int) -> int:
    """The vocabulary as the engine stores it."""
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING


@dataclass(frozen=True, slots=True)
class _Part:
    """The parameters of one module in one layer; `bits` 0: as the model's dtype says."""

    name: str
    module: str
    parameters: int
    split: bool = True
    at_most: int | None = None
    linear: bool = True
    touched: int = 1000
    by_data: bool = False
    bits: int = 0


def _heads_attention(d: Dimensions) -> list[_Part]:
    q, kv = d.heads * d.head_dim, d.kv_heads * d.head_dim
    bias = 1 if d.qkv_bias else 0
    parts = [
        _Part("attention", "self_attn.q_proj", q * (d.hidden + bias)),
        _Part(
            "attentionKV", "self_attn.k_proj", 2 * kv * (d.hidden + bias), at_most=d.kv_heads
        ),
        _Part("attention", "self_attn.o_proj", q * d.hidden),
    ]  # fmt: skip
    norms = d.hidden if d.output_bias else 0
    if d.qk_norm is QkNorm.HEAD:
        norms += 2 * d.head_dim
    elif d.qk_norm is QkNorm.ALL_HEADS:
        norms += q + kv
    return [*parts, _Part("norms", "", norms, split=False, linear=False)]


def _latent_attention(d: Dimensions, latent: Latent) -> list[_Part]:
    query = d.heads * (latent.nope + latent.rope)
    down = d.hidden * (latent.kv_rank + latent.rope)
    parts = [
        _Part("attentionDown", "self_attn.kv_a_proj_with_mqa", down, split=False),
        _Part(
            "attention",
            "self_attn.kv_b_proj",
            latent.kv_rank * d.heads * (latent.nope + latent.value),
        ),
        _Part("attention", "self_attn.o_proj", d.heads * latent.value * d.hidden),
        _Part("norms", "", latent.q_rank + latent.kv_rank, split=False, linear=False),
    ]
    if latent.q_rank:
        return [
            *parts,
            _Part("attentionDown", "self_attn.q_a_proj", d.hidden * latent.q_rank, split=False),
            _Part("attention", "self_attn.q_b_proj", latent.q_rank * query),
        ]
    return [*parts, _Part("attention", "self_attn.q_proj", d.hidden * query)]


def _feed_forward(
    name: str, module: str, hidden: int, width: int, *, bias: bool = False, gated: bool = True
) -> list[_Part]:
    """A feed-forward: gate and up, then down; without a gate, up and down."""
    up = width * (hidden + 1 if bias else hidden)
    return [
        _Part(name, f"{module}.gate_proj" if gated else f"{module}.up_proj", (1 + gated) * up),
        _Part(name, f"{module}.down_proj", width * hidden),
    ]


def _mixture(d: Dimensions, experts: Experts, mixture: Mixture) -> list[_Part]:
    parts = [
        _Part(
            "router",
            "",
            experts.count * d.hidden,
            split=False,
            linear=False,
            bits=BITS[mixture.router_dtype] if mixture.router_dtype else 0,
        ),
        _Part(
            "experts",
            f"{mixture.module}.experts.0.gate_proj",
            experts.count * 3 * d.hidden * experts.width,
            touched=max(1, 1000 * experts.per_token // experts.count),
            by_data=True,
        ),
    ]
    if experts.shared_width:
        shared = f"{mixture.module}.shared_expert" + ("" if mixture.shared_width else "s")
        parts += _feed_forward("sharedExperts", shared, d.hidden, experts.shared_width)
    if mixture.shared_width:
        parts.append(_Part("router", "", d.hidden, split=False, linear=False))
    return parts


def _layer(d: Dimensions, architecture: Architecture, index: int) -> list[_Part]:
    if architecture.attention is Attention.LATENT and d.latent is not None:
        parts = _latent_attention(d, d.latent)
    else:
        parts = _heads_attention(d)
    mixture = architecture.mixture
    if mixture is not None and d.experts is not None and index in d.experts.layers:
        parts += _mixture(d, d.experts, mixture)
    else:
        parts += _feed_forward(
            "feedForward", "mlp", d.hidden, d.width, bias=d.mlp_bias, gated=d.gated
        )
    norms = architecture.norms * _norm(d, architecture)
    return [*parts, _Part("norms", "", norms, split=False, linear=False)]


def _norm(d: Dimensions, architecture: Architecture) -> int:
    return 2 * d.hidden if architecture.norm_bias else d.hidden


def _merged(layers: Iterable[tuple[int, WeightGroup]], count: int) -> tuple[WeightGroup, ...]:
    """Groups that are alike but for their layer become one, with the span of its layers."""
    found: dict[WeightGroup, tuple[int, set[int]]] = {}
    for index, group in layers:
        key = replace(group, parameters=0)
        total, indices = found.get(key, (0, set()))
        found[key] = (total + group.parameters, indices | {index})
    return tuple(
        replace(
            key,
            parameters=total,
            layer_span=(
                (min(indices), max(indices) + 1)
                if len(indices) == max(indices) - min(indices) + 1 < count
                else None
            ),
        )
        for key, (total, indices) in found.items()
    )


def weight_groups(
    d: Dimensions, architecture: Architecture, quantization: Quantization
) -> tuple[WeightGroup, ...]:
    """Every parameter of the text model, and the buffers that come with it."""
    plain = BITS[d.dtype]

    def groups() -> Iterable[tuple[int, WeightGroup]]:
        for index in range(d.layers):
            for part in _layer(d, architecture, index):
                if not part.parameters:
                    continue
                bits = part.bits or plain
                if part.linear:
                    bits = quantization.bits(f"model.layers.{index}.{part.module}", d.dtype)
                yield index, WeightGroup(
                    part.name, part.parameters, bits,
                    split_by_tensor_parallel=part.split, touched_share_milli=part.touched,
                    split_at_most=part.at_most, split_by_data_parallel=part.by_data,
                    quantizable=part.linear,
                )  # fmt: skip

    rows = padded_vocabulary(d.vocabulary) * d.hidden
    ends = [
        WeightGroup(
            "embedding", rows, plain,
            stage="ends" if d.tied else "first", touched_share_milli=1000 if d.tied else 0,
        ),
        WeightGroup(
            "finalNorm", _norm(d, architecture), plain,
            split_by_tensor_parallel=False, stage="last",
        ),
    ]  # fmt: skip
    if not d.tied:
        bits = quantization.bits("lm_head", d.dtype)
        ends.append(WeightGroup("head", rows, bits, stage="last"))
    return (*_merged(groups(), d.layers), *ends, *_buffers(d))


def _buffers(d: Dimensions) -> list[WeightGroup]:
    """Device memory that comes with the layers without being a parameter."""
    # Four fp32 scales per layer, for Q, K, V and the probabilities.
    buffers = [
        WeightGroup(
            "attentionScales", 4 * d.layers, BITS["float32"],
            split_by_tensor_parallel=False, touched_share_milli=0, buffer=True,
        ),
        WeightGroup(
            "rotaryTable", d.rotary_elements, BITS["float32" if d.latent else d.dtype],
            split_by_tensor_parallel=False, touched_share_milli=0, stage="each", buffer=True,
        ),
    ]  # fmt: skip
    if d.latent is not None:
        # After loading, MLA keeps kv_b_proj once more, unquantised and transposed, for decoding
        # (vllm v0.32.0 mla_attention.py, process_weights_after_loading: W_UK_T and W_UV).
        latent = d.latent
        absorbed = latent.kv_rank * d.heads * (latent.nope + latent.value) * d.layers
        buffers.append(WeightGroup("absorbedProjection", absorbed, BITS[d.dtype], buffer=True))
    return buffers
