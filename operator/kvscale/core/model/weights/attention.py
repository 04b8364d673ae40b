"""Attention's parameters: heads with their own K and V, and one latent for all heads.

Sources: vllm v0.32.0 model_executor/layers/linear.py (QKVParallelLinear), layers/mla.py,
layers/attention/mla_attention.py, model_executor/models/{qwen3_next,gpt_oss,mimo_v2,step3p5}.py,
deepseek_v2.py (Indexer), models/minimax_m3/nvidia/model.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part, column, replicated, row, shared, whole


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention with K and V of its own.

    Attributes:
        hidden: width of the input and of the output.
        heads, kv_heads, head_dim: of Q and K.
        value_dim: elements of V per head; 0: as K.
        module: name of the block inside a layer.
        query, key, output: names of its matrices.
        qkv_bias, output_bias: which matrices have a bias.
        gate: outputs of a gate beside Q per head (head_dim where each element has one).
        gate_module: name of the gate's matrix; "": it is a part of Q's.
        norm: elements of the norms of Q and K, all heads together.
        sinks: one learnt logit per head.
        own_kv: False where the layer reads the K and V of another one.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0
    module: str = "self_attn"
    query: str = "q_proj"
    key: str = "k_proj"
    output: str = "o_proj"
    qkv_bias: bool = False
    output_bias: bool = False
    gate: int = 0
    gate_module: str = ""
    norm: int = 0
    sinks: bool = False
    own_kv: bool = True


def heads_attention(a: Heads) -> Iterable[Part]:
    """Parts of attention with heads of its own."""
    value = a.value_dim or a.head_dim
    query = a.head_dim + (0 if a.gate_module else a.gate)
    yield column("attention", f"{a.module}.{a.query}", a.hidden, a.heads * query, bias=a.qkv_bias)
    if a.gate_module:
        yield column("attention", f"{a.module}.{a.gate_module}", a.hidden, a.heads * a.gate)
    if a.own_kv:
        width = a.kv_heads * (a.head_dim + value)
        # No more shares than KV heads: beyond that the ranks repeat them.
        yield Part(
            "attentionKV", f"{a.module}.{a.key}", width * (a.hidden + a.qkv_bias),
            at_most=a.kv_heads, units=a.kv_heads,
        )  # fmt: skip
    yield row("attention", f"{a.module}.{a.output}", a.heads * value, a.hidden)
    yield whole("norms", a.norm + (a.hidden if a.output_bias else 0))
    if a.sinks:
        yield shared("attention", a.heads)
    yield attention_scales()


def attention_scales() -> Part:
    """Four fp32 scales per layer, for Q, K, V and the probabilities.

    vllm v0.32.0 model_executor/layers/attention/attention.py, set_default_quant_scales.
    """
    return Part(
        "attentionScales", "", 4, split=False, linear=False, touched=0,
        bits=BITS["float32"], buffer=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Latent:
    """Dimensions of multi-head latent attention.

    Attributes:
        q_rank: width of the query's latent; 0: the query is not compressed.
        kv_rank: width of the latent that is cached.
        rope, nope, value: elements per head with and without rotation, and of V.
    """

    q_rank: int
    kv_rank: int
    rope: int
    nope: int
    value: int


def latent_attention(
    hidden: int, heads: int, latent: Latent, *, bias: bool = False, absorbed_bits: int
) -> Iterable[Part]:
    """Parts of latent attention, and the copy of `kv_b_proj` that decoding uses.

    After loading, MLA keeps kv_b_proj once more, unquantised and transposed (mla_attention.py,
    process_weights_after_loading: W_UK_T and W_UV).

    Args:
        hidden: width of the model.
        heads: query heads.
        latent: the dimensions.
        bias: the down projections have one.
        absorbed_bits: thousandths of a bit per element of the unquantised copy; 0: there is none.
    """
    query = latent.nope + latent.rope
    up = latent.kv_rank * heads * (latent.nope + latent.value)
    yield replicated(
        "attentionDown", "self_attn.kv_a_proj_with_mqa", hidden, latent.kv_rank + latent.rope
    )
    yield column(
        "attention", "self_attn.kv_b_proj", latent.kv_rank, heads * (latent.nope + latent.value)
    )
    yield row("attention", "self_attn.o_proj", heads * latent.value, hidden)
    biases = (latent.q_rank + latent.kv_rank + latent.rope + hidden) if bias else 0
    yield whole("norms", latent.q_rank + latent.kv_rank + biases)
    if latent.q_rank:
        yield replicated("attentionDown", "self_attn.q_a_proj", hidden, latent.q_rank)
        yield column("attention", "self_attn.q_b_proj", latent.q_rank, heads * query)
    else:
        yield column("attention", "self_attn.q_proj", hidden, heads * query)
    if absorbed_bits:
        yield Part(
            "absorbedProjection",
            "",
            up,
            linear=False,
            bits=absorbed_bits,
            buffer=True,
            derived=True,
        )
    yield attention_scales()


def sparse_indexer(hidden: int, q_rank: int, heads: int, head_dim: int) -> Iterable[Part]:
    """Parts of the indexer that picks tokens for sparse attention (DeepSeek-V3.2, GLM-5).

    Every rank holds it whole; only the query's matrix is quantised with the checkpoint.

    Args:
        hidden: width of the model.
        q_rank: width of the query's latent.
        heads: of the indexer.
        head_dim: elements of one.
    """
    yield replicated("indexer", "self_attn.indexer.wq_b", q_rank, heads * head_dim)
    yield whole("indexer", hidden * (head_dim + heads))
    yield whole("indexer", 2 * head_dim, BITS["float32"])
