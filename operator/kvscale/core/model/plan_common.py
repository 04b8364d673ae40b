"""Layers of the common form: one attention, one feed-forward, norms before or around them.

Source: vllm v0.32.0 model_executor/models, the module that `architectures.py` names by its
evidence; a row of that table says where it departs from Llama's.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model import feed_forward
from kvscale.core.model.architecture import Architecture, QkNorm
from kvscale.core.model.attention import Heads, heads_attention, latent_attention, sparse_indexer
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.feed_forward import Dense, dense
from kvscale.core.model.fields import Fields
from kvscale.core.model.layer_kinds import MOST_LAYERS
from kvscale.core.model.layer_lists import layer_names
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.sizes import Dimensions

MOST_WIDTH = 1 << 20
MOST_HEADS = 1 << 14
MOST_HEAD_DIM = 1 << 14
MOST_POSITIONS = 1 << 22


def qk_norm(d: Dimensions) -> int:
    """Elements of the norms of Q and K."""
    if d.qk_norm is QkNorm.HEAD:
        return 2 * d.head_dim
    return (d.heads + d.kv_heads) * d.head_dim if d.qk_norm is QkNorm.ALL_HEADS else 0


def common_heads(d: Dimensions) -> Heads:
    """Attention as the model's dimensions state it."""
    return Heads(
        d.hidden, d.heads, d.kv_heads, d.head_dim,
        qkv_bias=d.qkv_bias, output_bias=d.output_bias, norm=qk_norm(d),
    )  # fmt: skip


def common_mixture(d: Dimensions, row: Architecture) -> Iterable[Part]:
    """The mixture of experts as the model's dimensions and its row state it."""
    keys, experts = row.mixture, d.experts
    if keys is None or experts is None:
        return ()
    return feed_forward.mixture(
        feed_forward.Mixture(
            d.hidden, experts.count, experts.per_token, experts.width,
            module=keys.module, expert=keys.expert, bias=keys.bias, gated=d.gated,
            shared_width=experts.shared_width,
            shared_module="shared_expert" if keys.shared_width else "shared_experts",
            shared_gate=keys.shared_gate,
            router_bits=BITS[keys.router_dtype] if keys.router_dtype else 0,
            router_extra=experts.count if keys.router_bias else 0,
            correction=keys.correction,
        )
    )  # fmt: skip


def common_dense(d: Dimensions, width: int = 0) -> Iterable[Part]:
    """A dense feed-forward as the model's dimensions state it, or of another width."""
    return dense(Dense(d.hidden, width or d.width, gated=d.gated, bias=d.mlp_bias))


def _indexed(text: Fields, layers: int) -> tuple[bool, ...]:
    """Which layers own an indexer; the others use what it picked for an earlier layer.

    vllm v0.32.0 model_executor/models/deepseek_v2.py (`_skip_topk`).
    """
    if not text.has("index_topk"):
        return (False,) * layers
    if text.has("indexer_types"):
        return tuple(name == "full" for name in layer_names(text, "indexer_types", layers))
    pattern = text.text("index_topk_pattern")
    if pattern:
        return tuple(pattern[i : i + 1] != "S" for i in range(layers))
    every = text.integer("index_topk_freq", 1, MOST_LAYERS, default=1)
    offset = text.integer("index_skip_topk_offset", 0, MOST_LAYERS, default=2)
    return tuple(max(i - offset + 1, 0) % every == 0 for i in range(layers))


def _second_norm(text: Fields) -> int:
    """Falcon's later form has a norm each for attention and the feed-forward (falcon.py)."""
    if not text.flag("new_decoder_architecture"):
        return int(not text.flag("parallel_attn", default=True))
    return text.integer("num_ln_in_parallel_attn", 1, 2, default=2) - 1


def common_plan(text: Fields, d: Dimensions, row: Architecture) -> Plan:
    """Every layer of a model of the common form."""
    experts = frozenset(d.experts.layers) if d.experts else frozenset()
    indexed = _indexed(text, d.layers)
    norms = row.norms + _second_norm(text)
    heads = common_heads(d)
    if row.gate_module:
        heads = replace(heads, gate=d.head_dim, gate_module=row.gate_module)
    absorbed = 0 if row.expands_latent else BITS[d.dtype]

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        mixed, indexer = kind
        if d.latent is not None:
            yield from latent_attention(
                d.hidden, d.heads, d.latent, bias=d.output_bias, absorbed_bits=absorbed
            )
        else:
            yield from heads_attention(heads)
        if indexer and d.latent is not None:
            yield from sparse_indexer(
                d.hidden,
                d.latent.q_rank or d.hidden,
                text.integer("index_n_heads", 1, MOST_HEADS),
                text.integer("index_head_dim", 1, MOST_HEAD_DIM),
            )
        if mixed:
            yield from common_mixture(d, row)
        else:
            yield from common_dense(d)
        yield whole("norms", norms * d.norm)

    plan = plan_of([(i in experts, indexed[i]) for i in range(d.layers)], build)
    if row.learned_positions is None:
        return plan
    rows = text.integer("max_position_embeddings", 1, MOST_POSITIONS) + row.learned_positions
    return replace(plan, extras=(("first", whole("positions", rows * d.hidden)),))
