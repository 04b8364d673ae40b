"""Layers of models that mix attention with gated delta nets, convolutions or linear attention.

Sources: vllm v0.32.0 model_executor/models/{qwen3_next,qwen3_5,lfm2,lfm2_moe}.py,
models/kimi_k3/nvidia/model.py, layers/mamba/gdn/kimi_gdn_linear_attn.py and
layers/mamba/linear/minimax_linear_attn.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_WIDTH
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.states.reading import gated_delta, kimi_delta, lightning, short_convolution
from kvscale.core.model.weights.attention import heads_attention, latent_attention
from kvscale.core.model.weights.feed_forward import Dense, dense
from kvscale.core.model.weights.plans.common import common_dense, common_heads, common_mixture
from kvscale.core.model.weights.sizes import Dimensions


def qwen_next_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Qwen3-Next and Qwen3.5: gated delta nets, and every n-th layer gated attention.

    Raises:
        Refused: a value that is missing or cannot be.
    """
    gated = text.flag("attn_output_gate", default=True)
    attention = replace(common_heads(d), output_bias=False, gate=d.head_dim if gated else 0)
    net = replace(gated_delta(text), input_module=table_row.recurrent_module)
    experts = frozenset(d.experts.layers) if d.experts else frozenset()

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        full, mixed = kind
        yield from heads_attention(attention) if full else net.parts(d.hidden)
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(m is Mixer.FULL, i in experts) for i, m in enumerate(d.mixers)], build)


def lfm2_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """LFM2: short convolutions and attention; the first layers of its mixtures are dense.

    Raises:
        Refused: a value that is missing or cannot be.
    """
    convolution = short_convolution(text)
    width = _lfm2_width(text, d) if d.experts is None else d.width
    experts = frozenset(d.experts.layers) if d.experts else frozenset()
    attention = replace(
        common_heads(d), output="out_proj", norm=2 * d.head_dim, qkv_bias=False, output_bias=False
    )

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        attends, mixed = kind
        yield from (heads_attention(attention) if attends else convolution.parts(d.hidden))
        yield from (
            common_mixture(d, table_row)
            if mixed
            else dense(Dense(d.hidden, width, module="feed_forward", up="w1", down="w2"))
        )
        yield whole("norms", 2 * d.norm)

    return plan_of([(m is Mixer.FULL, i in experts) for i, m in enumerate(d.mixers)], build)


def _lfm2_width(text: Fields, d: Dimensions) -> int:
    """Width of the feed-forward: two thirds of the stated one, rounded up."""
    if not text.flag("block_auto_adjust_ff_dim", default=True):
        return d.width
    width = 2 * d.width // 3
    width = int(width * text.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0))
    multiple = text.integer("block_multiple_of", 1, MOST_WIDTH, default=256)
    return -(-width // multiple) * multiple


def kimi_linear_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Kimi-Linear: delta attention with a decay per channel, and every n-th layer MLA.

    Raises:
        Refused: it does not say which layers are linear, or a value is missing or cannot be.
    """
    if not text.has("linear_attn_config") or d.latent is None:
        raise Refused(
            "InvalidConfig",
            f"{text.path}linear_attn_config",
            f"{text.path}linear_attn_config is missing; it must say which layers are linear",
        )
    latent = d.latent
    delta = kimi_delta(text)
    experts = frozenset(d.experts.layers) if d.experts else frozenset()

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        recurrent, mixed = kind
        yield from (
            delta.parts(d.hidden)
            if recurrent
            else latent_attention(d.hidden, d.heads, latent, absorbed_bits=BITS[d.dtype])
        )
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(m is Mixer.KIMI_DELTA, i in experts) for i, m in enumerate(d.mixers)], build)


def minimax_text_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """MiniMax-Text-01: lightning attention, and every eighth layer softmax attention.

    Raises:
        Refused: a value that is missing or cannot be.
    """
    linear = lightning(text)

    def build(mixer: Mixer) -> Iterable[Part]:
        yield from (
            heads_attention(common_heads(d)) if mixer is Mixer.FULL else linear.parts(d.hidden)
        )
        yield from common_mixture(d, table_row)
        yield whole("norms", 2 * d.norm)

    return plan_of(d.mixers, build)
