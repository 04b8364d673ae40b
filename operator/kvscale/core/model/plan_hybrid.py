"""Layers of models that mix attention with gated delta nets, convolutions or linear attention.

Sources: vllm v0.32.0 model_executor/models/{qwen3_next,qwen3_5,lfm2,lfm2_moe}.py,
models/kimi_k3/nvidia/model.py, layers/mamba/gdn/kimi_gdn_linear_attn.py and
layers/mamba/linear/minimax_linear_attn.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import heads_attention, latent_attention
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.feed_forward import Dense, dense
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.fields import whole as whole_number
from kvscale.core.model.layer_kinds import MOST_LAYERS
from kvscale.core.model.layer_lists import layer_integers, layer_names
from kvscale.core.model.mixers import DeltaNet, delta_net, short_convolution
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, row, shared, whole
from kvscale.core.model.plan_common import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    MOST_WIDTH,
    common_dense,
    common_heads,
    common_mixture,
)
from kvscale.core.model.sizes import Dimensions

FP32 = BITS["float32"]
MOST_TAPS = 1 << 10


def qwen_next_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Qwen3-Next and Qwen3.5: gated delta nets, and every n-th layer gated attention."""
    if text.has("layer_types"):
        names = layer_names(text, "layer_types", d.layers)
    else:
        every = text.integer("full_attention_interval", 1, MOST_LAYERS, default=4)
        names = tuple(
            "full_attention" if (i + 1) % every == 0 else "linear_attention"
            for i in range(d.layers)
        )
    gated = text.flag("attn_output_gate", default=True)
    attention = replace(common_heads(d), output_bias=False, gate=d.head_dim if gated else 0)
    net = DeltaNet(
        d.hidden,
        text.integer("linear_num_key_heads", 1, MOST_HEADS, default=16),
        text.integer("linear_num_value_heads", 1, MOST_HEADS, default=32),
        text.integer("linear_key_head_dim", 1, MOST_HEAD_DIM, default=128),
        text.integer("linear_value_head_dim", 1, MOST_HEAD_DIM, default=128),
        text.integer("linear_conv_kernel_dim", 1, MOST_TAPS, default=4),
        table_row.recurrent_module,
    )
    experts = frozenset(d.experts.layers) if d.experts else frozenset()

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        full, mixed = kind
        yield from heads_attention(attention) if full else delta_net(net)
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(n == "full_attention", i in experts) for i, n in enumerate(names)], build)


def lfm2_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """LFM2: short convolutions and attention; the first layers of its mixtures are dense."""
    if text.has("layer_types"):
        full = tuple(n == "full_attention" for n in layer_names(text, "layer_types", d.layers))
    else:
        indices = text.items("full_attn_idxs", MOST_LAYERS)
        full = tuple(i in indices for i in range(d.layers))
    taps = text.integer("conv_L_cache", 1, MOST_TAPS, default=3)
    bias = text.flag("conv_bias")
    width = _lfm2_width(text, d) if d.experts is None else d.width
    experts = frozenset(d.experts.layers) if d.experts else frozenset()
    attention = replace(
        common_heads(d), output="out_proj", norm=2 * d.head_dim, qkv_bias=False, output_bias=False
    )

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        attends, mixed = kind
        yield from (
            heads_attention(attention) if attends else short_convolution(d.hidden, taps, bias=bias)
        )
        yield from (
            common_mixture(d, table_row)
            if mixed
            else dense(Dense(d.hidden, width, module="feed_forward", up="w1", down="w2"))
        )
        yield whole("norms", 2 * d.norm)

    return plan_of([(f, i in experts) for i, f in enumerate(full)], build)


def _lfm2_width(text: Fields, d: Dimensions) -> int:
    """Width of the feed-forward: two thirds of the stated one, rounded up."""
    if not text.flag("block_auto_adjust_ff_dim", default=True):
        return d.width
    width = 2 * d.width // 3
    width = int(width * text.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0))
    multiple = text.integer("block_multiple_of", 1, MOST_WIDTH, default=256)
    return -(-width // multiple) * multiple


def kimi_linear_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Kimi-Linear: delta attention with a decay per channel, and every n-th layer MLA."""
    linear = text.child("linear_attn_config")
    if linear is None or d.latent is None:
        raise Refused(
            "InvalidConfig",
            f"{text.path}linear_attn_config",
            f"{text.path}linear_attn_config is missing; it must say which layers are linear",
        )
    latent = d.latent
    listed = {whole_number(entry) for entry in linear.items("kda_layers", MOST_LAYERS)}
    heads = linear.integer("num_heads", 1, MOST_HEADS)
    head_dim = linear.integer("head_dim", 1, MOST_HEAD_DIM)
    taps = linear.integer("short_conv_kernel_size", 1, MOST_TAPS, default=4)
    experts = frozenset(d.experts.layers) if d.experts else frozenset()
    inner = heads * head_dim

    def delta() -> Iterable[Part]:
        yield column("recurrent", "self_attn.q_proj", d.hidden, 3 * inner + heads)
        yield replicated("recurrent", "self_attn.f_a_proj", d.hidden, 2 * head_dim)
        yield column("recurrent", "self_attn.f_b_proj", head_dim, 2 * inner)
        yield row("recurrent", "self_attn.o_proj", inner, d.hidden)
        yield shared("recurrent", inner + 3 * inner * taps + heads, FP32)
        yield whole("norms", head_dim)

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        recurrent, mixed = kind
        yield from (
            delta()
            if recurrent
            else latent_attention(d.hidden, d.heads, latent, absorbed_bits=BITS[d.dtype])
        )
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    # Layers are counted from 1 there.
    return plan_of([(i + 1 in listed, i in experts) for i in range(d.layers)], build)


def minimax_text_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """MiniMax-Text-01: lightning attention, and every eighth layer softmax attention."""
    if text.has("attn_type_list"):
        full = layer_integers(text, "attn_type_list", d.layers, 0, 1)
    else:
        names = layer_names(text, "layer_types", d.layers)
        full = tuple(int(name == "full_attention") for name in names)
    inner = d.heads * d.head_dim

    def lightning() -> Iterable[Part]:
        yield column("recurrent", "self_attn.qkv_proj", d.hidden, 3 * inner)
        yield column("recurrent", "self_attn.output_gate", d.hidden, inner)
        yield row("recurrent", "self_attn.out_proj", inner, d.hidden)
        yield shared("norms", inner)

    def build(attends: int) -> Iterable[Part]:
        yield from heads_attention(common_heads(d)) if attends else lightning()
        yield from common_mixture(d, table_row)
        yield whole("norms", 2 * d.norm)

    return plan_of(full, build)
