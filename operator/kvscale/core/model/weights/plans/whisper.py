"""Layers of Whisper: a decoder that attends to an encoder's output, and the encoder.

Source: vllm v0.32.0 model_executor/models/whisper.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_HEADS, MOST_LAYERS, MOST_WIDTH
from kvscale.core.model.fields import Fields
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.weights.attention import heads_attention
from kvscale.core.model.weights.feed_forward import Dense, dense
from kvscale.core.model.weights.plans.common import common_heads
from kvscale.core.model.weights.sizes import Dimensions

MOST_POSITIONS = 1 << 22
TAPS = 3
"""Of both convolutions over the spectrogram."""


def whisper_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """The decoder's layers; the encoder beside them, on the first pipeline stage."""
    heads = replace(common_heads(d), output="out_proj", qkv_bias=True, output_bias=True)

    def build(_kind: int) -> Iterable[Part]:
        yield from heads_attention(heads)
        yield from heads_attention(replace(heads, module="encoder_attn"))
        yield from dense(
            Dense(d.hidden, d.width, gated=False, bias=True, module="", up="fc1", down="fc2")
        )
        yield whole("norms", 3 * d.norm)

    def encoder() -> Iterable[Part]:
        count = text.integer("encoder_attention_heads", 1, MOST_HEADS, default=d.heads)
        width = text.integer("encoder_ffn_dim", 1, MOST_WIDTH, default=d.width)
        own = replace(heads, heads=count, kv_heads=count, head_dim=max(1, d.hidden // count))
        yield from heads_attention(own)
        yield from dense(
            Dense(d.hidden, width, gated=False, bias=True, module="", up="fc1", down="fc2")
        )
        yield whole("norms", 2 * d.norm)

    depth = text.integer("encoder_layers", 1, MOST_LAYERS, default=d.layers)
    bins = text.integer("num_mel_bins", 1, 1 << 12, default=80)
    sources = text.integer("max_source_positions", 1, MOST_POSITIONS, default=1500)
    targets = text.integer("max_target_positions", 1, MOST_POSITIONS, default=448)
    ends = whole(
        "audio",
        d.hidden * (TAPS * (bins + d.hidden) + 2 + sources + targets) + d.norm,
    )
    layers = tuple(replace(part, parameters=depth * part.parameters) for part in encoder())
    extras = tuple(("first", part) for part in (*layers, ends) if part.parameters)
    return replace(plan_of([0] * d.layers, build), extras=extras)
