"""Layers of models with Mamba-1 mixers, and of those with Mamba-2 mixers alone.

Sources: vllm v0.32.0 model_executor/models/{jamba,mamba,mamba2}.py.
"""

from collections.abc import Iterable

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import heads_attention
from kvscale.core.model.fields import Fields
from kvscale.core.model.layer_kinds import MOST_LAYERS
from kvscale.core.model.mixers import Mamba1, Mamba2, mamba1, mamba2
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.plan_common import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    MOST_WIDTH,
    common_dense,
    common_heads,
    common_mixture,
)
from kvscale.core.model.sizes import Dimensions

MOST_TAPS = 1 << 10


def jamba_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Jamba: Mamba-1 with attention every n-th layer, mixtures every m-th."""
    period = text.integer("attn_layer_period", 1, MOST_LAYERS, default=8)
    offset = text.integer("attn_layer_offset", 0, MOST_LAYERS, default=4)
    rank = text.data.get("mamba_dt_rank")
    mixer = Mamba1(
        d.hidden,
        text.integer("mamba_expand", 1, 64, default=2) * d.hidden,
        text.integer("mamba_d_state", 1, MOST_WIDTH, default=16),
        -(-d.hidden // 16) if rank in (None, "auto")
        else text.integer("mamba_dt_rank", 1, MOST_WIDTH),
        text.integer("mamba_d_conv", 1, MOST_TAPS, default=4),
        bias=text.flag("mamba_proj_bias"),
        kernel_bias=text.flag("mamba_conv_bias", default=True),
        norms=True,
        module="mamba",
    )  # fmt: skip
    experts = frozenset(d.experts.layers) if d.experts else frozenset()

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        attends, mixed = kind
        yield from heads_attention(common_heads(d)) if attends else mamba1(mixer)
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(i % period == offset, i in experts) for i in range(d.layers)], build)


def mamba1_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Mamba and Falcon-Mamba: nothing but mixers; Falcon's norms have no weights."""
    expand = text.integer("expand", 1, 64, default=2)
    mixer = Mamba1(
        d.hidden,
        text.integer("intermediate_size", 1, MOST_WIDTH, default=expand * d.hidden),
        text.integer("state_size", 1, MOST_WIDTH, default=16),
        text.integer("time_step_rank", 1, MOST_WIDTH, default=-(-d.hidden // 16)),
        text.integer("conv_kernel", 1, MOST_TAPS, default=4),
        bias=text.flag("use_bias"),
        kernel_bias=text.flag("use_conv_bias", default=True),
        norms=False,
    )

    def build(_kind: int) -> Iterable[Part]:
        yield from mamba1(mixer)
        yield whole("norms", d.norm)

    return plan_of([0] * d.layers, build)


def mamba2_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Mamba-2: nothing but mixers."""
    mixer = Mamba2(
        d.hidden,
        text.integer("num_heads", 1, MOST_HEADS, default=128),
        text.integer("head_dim", 1, MOST_HEAD_DIM, default=64),
        text.integer("n_groups", 1, MOST_HEADS, default=8),
        text.integer("state_size", 1, MOST_WIDTH, default=128),
        text.integer("conv_kernel", 1, MOST_TAPS, default=4),
        bias=text.flag("use_bias"),
        kernel_bias=text.flag("use_conv_bias", default=True),
    )

    def build(_kind: int) -> Iterable[Part]:
        yield from mamba2(mixer)
        yield whole("norms", d.norm)

    return plan_of([0] * d.layers, build)
