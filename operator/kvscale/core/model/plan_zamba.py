"""Layers of Zamba2: Mamba-2, and few attention blocks that many layers share.

Source: vllm v0.32.0 model_executor/models/zamba2.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import Heads, heads_attention
from kvscale.core.model.feed_forward import Dense, dense
from kvscale.core.model.fields import Fields
from kvscale.core.model.layer_lists import layer_names
from kvscale.core.model.mixers import Mamba2, mamba2
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, whole
from kvscale.core.model.plan_common import MOST_HEAD_DIM, MOST_HEADS, MOST_WIDTH
from kvscale.core.model.sizes import Dimensions


def zamba2_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Every layer has a mixer; a hybrid one also runs one of the shared blocks."""
    names = layer_names(text, "layers_block_type", d.layers)
    inner = text.integer("mamba_expand", 1, 64, default=2) * d.hidden
    heads = text.integer("n_mamba_heads", 1, MOST_HEADS, default=8)
    mixer = Mamba2(
        d.hidden,
        heads,
        inner // heads,
        text.integer("mamba_ngroups", 1, MOST_HEADS, default=1),
        text.integer("mamba_d_state", 1, MOST_WIDTH, default=64),
        text.integer("mamba_d_conv", 1, 1 << 10, default=4),
        bias=text.flag("add_bias_linear"),
        kernel_bias=text.flag("use_conv_bias", default=True),
        module="mamba",
    )
    rank = text.integer("adapter_rank", 1, MOST_WIDTH, default=128)
    adapts = text.flag("use_shared_attention_adapter")

    def build(hybrid: bool) -> Iterable[Part]:  # noqa: FBT001 - a kind of layer
        yield from mamba2(mixer)
        yield whole("norms", d.norm)
        if hybrid:
            yield replicated("attention", "linear", d.hidden, d.hidden)
            yield from _adapter("gate_up_proj_adapter", d.hidden, rank, 2 * d.width)
            if adapts:
                for name in ("q", "k", "v"):
                    yield from _adapter(f"linear_{name}_adapter", 2 * d.hidden, rank, 2 * d.hidden)

    plan = plan_of([name == "hybrid" for name in names], build)
    blocks = text.integer("num_mem_blocks", 1, 1_000, default=1)
    return replace(
        plan,
        extras=tuple(
            ("each", replace(part, parameters=blocks * part.parameters)) for part in _block(text, d)
        ),
    )


def _adapter(module: str, inputs: int, rank: int, outputs: int) -> Iterable[Part]:
    yield column("adapters", module, inputs, rank)
    yield column("adapters", module, rank, outputs)


def _block(text: Fields, d: Dimensions) -> Iterable[Part]:
    """A shared block reads the layer's input beside the model's: twice the width."""
    wide = text.integer("attention_hidden_size", 1, MOST_WIDTH, default=2 * d.hidden)
    head_dim = text.integer("attention_head_dim", 1, MOST_HEAD_DIM, default=wide // d.heads)
    for part in heads_attention(Heads(wide, d.heads, d.heads, head_dim)):
        if part.module.endswith("o_proj"):
            yield replace(part, parameters=part.parameters // wide * d.hidden)
        else:
            yield part
    yield from dense(Dense(d.hidden, d.width, bias=text.flag("add_bias_linear")))
    yield whole("norms", wide + d.hidden)
