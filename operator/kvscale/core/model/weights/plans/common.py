"""Layers of the common form: one attention, one feed-forward, norms before or around them.

Source: vllm v0.32.0 model_executor/models, the module that `architectures.table` names by its
evidence; a row of that table says where it departs from Llama's.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture, QkNorm
from kvscale.core.model.bounds import MOST_HEADS
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.heads import layer_heads
from kvscale.core.model.layers.indexers import latent_indexers
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.weights import feed_forward
from kvscale.core.model.weights.attention import (
    Heads,
    heads_attention,
    latent_attention,
    sparse_indexer,
)
from kvscale.core.model.weights.feed_forward import Dense, dense
from kvscale.core.model.weights.sizes import Dimensions

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


def layer_heads_block(text: Fields, d: Dimensions, row: Architecture, mixer: Mixer) -> Heads:
    """Attention with the heads that the layers with that mixer have."""
    own = layer_heads(text, row.name, d, mixer)
    return replace(
        common_heads(d),
        heads=own.heads,
        kv_heads=own.kv_heads,
        head_dim=own.key,
        value_dim=own.value,
        own_kv=not mixer.reads_another,
    )


def common_dense(d: Dimensions, width: int = 0) -> Iterable[Part]:
    """A dense feed-forward as the model's dimensions state it, or of another width."""
    return dense(Dense(d.hidden, width or d.width, gated=d.gated, bias=d.mlp_bias))


def _second_norm(text: Fields) -> int:
    """Falcon's later form has a norm each for attention and the feed-forward (falcon.py)."""
    if not text.flag("new_decoder_architecture"):
        return int(not text.flag("parallel_attn", default=True))
    return text.integer("num_ln_in_parallel_attn", 1, 2, default=2) - 1


def common_plan(text: Fields, d: Dimensions, row: Architecture) -> Plan:
    """Every layer of a model of the common form."""
    experts = frozenset(d.experts.layers) if d.experts else frozenset()
    indexers = latent_indexers(text, d.layers)
    indexed = frozenset(indexers.layers)
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
                indexers.width,
            )
        if mixed:
            yield from common_mixture(d, row)
        else:
            yield from common_dense(d)
        yield whole("norms", norms * d.norm)

    plan = plan_of([(i in experts, i in indexed) for i in range(d.layers)], build)
    if row.learned_positions is None:
        return plan
    rows = text.integer("max_position_embeddings", 1, MOST_POSITIONS) + row.learned_positions
    return replace(plan, extras=(("each", whole("positions", rows * d.hidden)),))
