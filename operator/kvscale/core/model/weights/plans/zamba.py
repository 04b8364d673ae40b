"""Layers of Zamba2: Mamba-2, and few attention blocks that many layers share.

Source: vllm v0.32.0 model_executor/models/zamba2.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_WIDTH
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.heads import layer_heads, zamba_width
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, whole
from kvscale.core.model.states.reading import zamba2
from kvscale.core.model.weights.attention import Heads, heads_attention
from kvscale.core.model.weights.feed_forward import Dense, dense
from kvscale.core.model.weights.sizes import Dimensions


def zamba2_plan(text: Fields, d: Dimensions, row: Architecture) -> Plan:
    """Every layer has a mixer; a hybrid one also runs one of the shared blocks."""
    mixer = zamba2(text)
    rank = text.integer("adapter_rank", 1, MOST_WIDTH, default=128)
    adapts = text.flag("use_shared_attention_adapter")

    def build(hybrid: bool) -> Iterable[Part]:  # noqa: FBT001 - a kind of layer
        yield from mixer.parts(d.hidden)
        yield whole("norms", d.norm)
        if hybrid:
            yield replicated("attention", "linear", d.hidden, d.hidden)
            yield from _adapter("gate_up_proj_adapter", d.hidden, rank, 2 * d.width)
            if adapts:
                for name in ("q", "k", "v"):
                    yield from _adapter(f"linear_{name}_adapter", 2 * d.hidden, rank, 2 * d.hidden)

    plan = plan_of([mixer is Mixer.BOTH for mixer in d.mixers], build)
    blocks = text.integer("num_mem_blocks", 1, 1_000, default=1)
    return replace(
        plan,
        extras=tuple(
            ("each", replace(part, parameters=blocks * part.parameters))
            for part in _block(text, d, row)
        ),
    )


def _adapter(module: str, inputs: int, rank: int, outputs: int) -> Iterable[Part]:
    yield column("adapters", module, inputs, rank)
    yield column("adapters", module, rank, outputs)


def _block(text: Fields, d: Dimensions, row: Architecture) -> Iterable[Part]:
    """A shared block reads the layer's input beside the model's: twice the width."""
    wide = zamba_width(text, d.hidden)
    own = layer_heads(text, row.name, d, Mixer.BOTH)
    for part in heads_attention(Heads(wide, own.heads, own.kv_heads, own.key, own.value)):
        if part.module.endswith("o_proj"):
            yield replace(part, parameters=part.parameters // wide * d.hidden)
        else:
            yield part
    yield from dense(Dense(d.hidden, d.width, bias=text.flag("add_bias_linear")))
    yield whole("norms", wide + d.hidden)
