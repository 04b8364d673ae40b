"""Layers of attention models that differ from one another inside the model.

Sources: vllm v0.32.0 model_executor/models/{gpt_oss,llama4,gemma4,mimo_v2,step3p5,nemotron_nas}.py
and models/minimax_m3/nvidia/model.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_WIDTH
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.indexers import block_indexers
from kvscale.core.model.layers.lists import layer_integers
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.layers.searched import searched_blocks, searched_kv_heads
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, whole
from kvscale.core.model.weights.attention import heads_attention
from kvscale.core.model.weights.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.weights.plans.common import (
    common_dense,
    common_heads,
    common_mixture,
    layer_heads_block,
)
from kvscale.core.model.weights.sizes import Dimensions, Experts

FP32 = BITS["float32"]


def _experts(d: Dimensions, text: Fields, key: str) -> Experts:
    if d.experts is None:
        raise Refused(
            "InvalidConfig",
            text.path + key,
            f"{text.path}{key} is missing or 0; this architecture has experts",
        )
    return d.experts


def gpt_oss_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """gpt-oss: biases and sinks in attention, biases in the experts and the router."""
    experts = _experts(d, text, "num_local_experts")

    def build(_kind: int) -> Iterable[Part]:
        yield from heads_attention(
            replace(common_heads(d), qkv_bias=True, output_bias=True, sinks=True)
        )
        yield from mixture(
            Mixture(
                d.hidden, experts.count, experts.per_token, experts.width,
                bias=True, router_extra=experts.count,
            )
        )  # fmt: skip
        yield whole("norms", 2 * d.norm)

    return plan_of([0] * d.layers, build)


def llama4_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Llama-4: every n-th layer a mixture with a shared expert, the others dense and wider."""
    wide = text.integer("intermediate_size_mlp", 1, MOST_WIDTH, default=d.width or None)
    experts = frozenset(_experts(d, text, "num_local_experts").layers)

    def build(mixed: bool) -> Iterable[Part]:  # noqa: FBT001 - a kind of layer
        yield from heads_attention(common_heads(d))
        yield from (
            common_mixture(d, table_row)
            if mixed
            else dense(Dense(d.hidden, wide, module="feed_forward"))
        )
        yield whole("norms", 2 * d.norm)

    return plan_of([i in experts for i in range(d.layers)], build)


def mimo_v2_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """MiMo-V2: window layers with heads of their own and sinks; V narrower than K."""
    sparse = layer_integers(text, "moe_layer_freq", d.layers, 0, 1)
    sinks = text.flag("add_swa_attention_sink_bias")

    def build(kind: tuple[Mixer, int]) -> Iterable[Part]:
        own = layer_heads_block(text, d, table_row, kind[0])
        yield from heads_attention(
            replace(own, output_bias=False, sinks=sinks and kind[0].windowed)
        )
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of(list(zip(d.mixers, sparse, strict=True)), build)


def minimax_m3_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """MiniMax-M3: some layers pick blocks of tokens by an indexer beside Q, K and V."""
    indexers = block_indexers(text, d.layers)
    owners = frozenset(indexers.layers)
    mixed = layer_integers(text, "moe_layer_freq", d.layers, 0, 1)

    def build(kind: tuple[bool, int]) -> Iterable[Part]:
        yield from heads_attention(common_heads(d))
        if kind[0]:
            # One query of the indexer per KV head; its key is one for all and on every rank.
            queries = indexers.heads * indexers.width
            yield replace(
                column("indexer", "self_attn.q_proj", d.hidden, queries), at_most=indexers.heads
            )
            yield replicated("indexer", "self_attn.k_proj", d.hidden, indexers.width)
            yield whole("norms", 2 * indexers.width)
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(i in owners, mixed[i]) for i in range(d.layers)], build)


def step_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Step-3.5 and 3.7: window layers may have other heads; a gate per head; dense first layers."""
    gate = int(text.flag("use_head_wise_attn_gate"))
    experts = frozenset(_experts(d, text, "moe_num_experts").layers)

    def build(kind: tuple[Mixer, bool]) -> Iterable[Part]:
        own = layer_heads_block(text, d, table_row, kind[0])
        yield from heads_attention(
            replace(own, output_bias=False, gate=gate, gate_module="g_proj" if gate else "")
        )
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(mixer, i in experts) for i, mixer in enumerate(d.mixers)], build)


def decilm_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """DeciLM and Llama-Nemotron: a search chose for each layer its heads and its width, or none."""
    kv_heads_of = searched_kv_heads(text, d.layers, d.heads)
    widths = (
        0 if ffn.flag("no_op") else _nas_width(ffn, d.hidden)
        for ffn in searched_blocks(text, "ffn", d.layers)
    )
    kinds = list(zip(kv_heads_of, widths, strict=True))

    def build(kind: tuple[int, int]) -> Iterable[Part]:
        kv_heads, width = kind
        if kv_heads:
            yield from heads_attention(replace(common_heads(d), kv_heads=kv_heads))
        if width:
            yield from common_dense(d, width)
        yield whole("norms", d.norm * (bool(kv_heads) + bool(width)))

    return plan_of(kinds, build)


def _nas_width(ffn: Fields, hidden: int) -> int:
    """Width of a feed-forward that is stated as a multiple of the model's, rounded up to 256.

    vllm v0.32.0 model_executor/models/nemotron_nas.py, `_ffn_mult_to_intermediate_size`.
    """
    if not ffn.has("ffn_mult"):
        return ffn.integer("intermediate_size", 1, MOST_WIDTH)
    width = int(2 * ffn.number("ffn_mult", 1e-3, 1e3, 1.0) * hidden / 3)
    return -(-width // 256) * 256
