"""Layers of attention models that differ from one another inside the model.

Sources: vllm v0.32.0 model_executor/models/{gpt_oss,llama4,gemma4,mimo_v2,step3p5,nemotron_nas}.py
and models/minimax_m3/nvidia/model.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import Heads, heads_attention
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layer_kinds import MOST_LAYERS
from kvscale.core.model.layer_lists import layer_integers, layer_names
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, whole
from kvscale.core.model.plan_common import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    MOST_WIDTH,
    common_dense,
    common_heads,
    common_mixture,
)
from kvscale.core.model.sizes import Dimensions, Experts

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
    window = layer_integers(text, "hybrid_layer_pattern", d.layers, 0, 1)
    sparse = layer_integers(text, "moe_layer_freq", d.layers, 0, 1)
    value = text.integer("v_head_dim", 1, MOST_HEAD_DIM, default=d.head_dim)
    full = replace(common_heads(d), value_dim=value, output_bias=False)
    narrow = Heads(
        d.hidden,
        text.integer("swa_num_attention_heads", 1, MOST_HEADS, default=d.heads),
        text.integer("swa_num_key_value_heads", 1, MOST_HEADS, default=d.kv_heads),
        text.integer("swa_head_dim", 1, MOST_HEAD_DIM, default=d.head_dim),
        text.integer("swa_v_head_dim", 1, MOST_HEAD_DIM, default=value),
        qkv_bias=d.qkv_bias,
        sinks=text.flag("add_swa_attention_sink_bias"),
    )

    def build(kind: tuple[int, int]) -> Iterable[Part]:
        yield from heads_attention(narrow if kind[0] else full)
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of(list(zip(window, sparse, strict=True)), build)


def minimax_m3_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """MiniMax-M3: some layers pick blocks of tokens by an indexer beside Q, K and V."""
    sparse = text.child("sparse_attention_config")
    picks = (0,) * d.layers
    index_dim = index_heads = 0
    if sparse is not None:
        index_dim = sparse.integer("sparse_index_dim", 1, MOST_HEAD_DIM)
        index_heads = sparse.integer("sparse_num_index_heads", 1, MOST_HEADS)
        picks = layer_integers(sparse, "sparse_attention_freq", d.layers, 0, 1)
    mixed = layer_integers(text, "moe_layer_freq", d.layers, 0, 1)

    def build(kind: tuple[int, int]) -> Iterable[Part]:
        yield from heads_attention(common_heads(d))
        if kind[0]:
            # One query of the indexer per KV head; its key is one for all and on every rank.
            queries = index_heads * index_dim
            yield replace(
                column("indexer", "self_attn.q_proj", d.hidden, queries), at_most=index_heads
            )
            yield replicated("indexer", "self_attn.k_proj", d.hidden, index_dim)
            yield whole("norms", 2 * index_dim)
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of(list(zip(picks, mixed, strict=True)), build)


def step_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Step-3.5 and 3.7: window layers may have other heads; a gate per head; dense first layers."""
    other = text.child("attention_other_setting")
    names = ("full_attention",) * d.layers
    if text.has("layer_types"):
        names = layer_names(text, "layer_types", d.layers)
    gate = int(text.flag("use_head_wise_attn_gate"))
    usual = replace(
        common_heads(d), output_bias=False, gate=gate, gate_module="g_proj" if gate else ""
    )
    special, kind_of_special = usual, ""
    if other is not None:
        kind_of_special = other.text("attention_type")
        special = replace(
            usual,
            heads=other.integer("num_attention_heads", 1, MOST_HEADS, default=d.heads),
            kv_heads=other.integer("num_attention_groups", 1, MOST_HEADS, default=d.kv_heads),
            head_dim=other.integer("head_dim", 1, MOST_HEAD_DIM, default=d.head_dim),
        )
    experts = frozenset(_experts(d, text, "moe_num_experts").layers)

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        yield from heads_attention(special if kind[0] else usual)
        yield from common_mixture(d, table_row) if kind[1] else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(name == kind_of_special, i in experts) for i, name in enumerate(names)], build)


def _block(blocks: Fields, index: int, key: str) -> Fields:
    block = blocks.child(str(index))
    part = block.child(key) if block is not None else None
    if part is None:
        raise Refused(
            "InvalidConfig",
            f"block_configs[{index}].{key}",
            f"block_configs[{index}].{key} is missing; it must be an object",
        )
    return part


def decilm_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """DeciLM and Llama-Nemotron: a search chose for each layer its heads and its width, or none."""
    listed = text.items("block_configs", MOST_LAYERS)
    blocks = Fields({str(i): block for i, block in enumerate(listed)}, f"{text.path}block_configs.")
    kinds: list[tuple[int, int]] = []
    for index in range(d.layers):
        attention, ffn = _block(blocks, index, "attention"), _block(blocks, index, "ffn")
        kv_heads = width = 0
        if not attention.flag("no_op"):
            kv_heads = d.heads // attention.integer("n_heads_in_group", 1, d.heads)
        if not ffn.flag("no_op"):
            width = _nas_width(ffn, d.hidden)
        kinds.append((kv_heads, width))

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
