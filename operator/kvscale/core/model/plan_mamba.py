"""Layers of models with Mamba mixers, alone or beside attention.

Sources: vllm v0.32.0 model_executor/models/{nemotron_h,granitemoehybrid,jamba,falcon_h1,zamba2,
mamba,mamba2}.py; Bamba after transformers v4.57 models/bamba/configuration_bamba.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import heads_attention
from kvscale.core.model.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.fields import Fields, Refused, shown
from kvscale.core.model.layer_kinds import MOST_LAYERS
from kvscale.core.model.layer_lists import layer_integers, layer_names
from kvscale.core.model.mixers import Mamba2, mamba2
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
MOST_PATTERN = 4 * MOST_LAYERS

_NEMOTRON = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def _mamba_d(text: Fields, hidden: int, module: str, inner: int = 0) -> Mamba2:
    """A Mamba-2 mixer by the keys that Bamba, Granite-4 and Falcon-H1 share."""
    heads = text.integer("mamba_n_heads", 1, MOST_HEADS, default=128)
    expand = text.integer("mamba_expand", 1, 64, default=2)
    inner = inner or expand * hidden
    return Mamba2(
        hidden,
        heads,
        inner // heads,
        text.integer("mamba_n_groups", 1, MOST_HEADS, default=1),
        text.integer("mamba_d_state", 1, MOST_WIDTH, default=256),
        text.integer("mamba_d_conv", 1, MOST_TAPS, default=4),
        bias=text.flag("mamba_proj_bias"),
        kernel_bias=text.flag("mamba_conv_bias", default=True),
        module=module,
    )


def nemotron_kinds(text: Fields) -> str:
    """One letter per layer: M Mamba-2, * attention, - dense, E mixture.

    Raises:
        Refused: no pattern, or a letter that is none of these.
    """
    pattern = text.text("hybrid_override_pattern")
    if not pattern and text.has("layers_block_type"):
        listed = text.items("layers_block_type", MOST_LAYERS)
        pattern = "".join(_NEMOTRON.get(str(name), "?") for name in listed)
    pattern = pattern.replace("|", "")[:MOST_PATTERN]
    strange = set(pattern) - set("M*-E")
    if strange or not pattern:
        raise Refused(
            "InvalidConfig",
            f"{text.path}hybrid_override_pattern",
            f"{text.path}hybrid_override_pattern is {shown(pattern)}; it must be made of M, *, - "
            "and E, one per layer",
        )
    return pattern


def nemotron_h_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Nemotron-H and Nemotron-3: each layer is a mixer or a feed-forward, not both."""
    pattern = nemotron_kinds(text)[: d.layers]
    if len(pattern) < d.layers:
        raise Refused(
            "InvalidConfig",
            f"{text.path}hybrid_override_pattern",
            f"{text.path}hybrid_override_pattern has {len(pattern)} letters; it must have one for "
            f"each of the {d.layers} layers",
        )
    widths = iter(_nemotron_widths(text, pattern.count("-")))
    kinds = [(letter, next(widths) if letter == "-" else 0) for letter in pattern]

    def build(kind: tuple[str, int]) -> Iterable[Part]:
        letter, width = kind
        if letter == "M":
            yield from mamba2(_nemotron_mamba(text, d))
        elif letter == "*":
            yield from heads_attention(
                replace(common_heads(d), module="mixer", qkv_bias=False, output_bias=False)
            )
        elif letter == "E":
            yield from mixture(_nemotron_mixture(text, d))
        else:
            yield from dense(Dense(d.hidden, width, gated=False, bias=d.mlp_bias, module="mixer"))
        yield whole("norms", d.norm)

    return plan_of(kinds, build)


def _nemotron_widths(text: Fields, layers: int) -> tuple[int, ...]:
    """Width of each dense layer; the config states one for all, or a list."""
    if not layers:
        return ()
    stated = text.data.get("intermediate_size")
    if isinstance(stated, list) and len(stated) == 1:
        text = Fields({"intermediate_size": stated[0]}, text.path)
    return layer_integers(text, "intermediate_size", layers, 1, MOST_WIDTH)


def _nemotron_mamba(text: Fields, d: Dimensions) -> Mamba2:
    return Mamba2(
        d.hidden,
        text.integer("mamba_num_heads", 1, MOST_HEADS),
        text.integer("mamba_head_dim", 1, MOST_HEAD_DIM),
        text.integer("n_groups", 1, MOST_HEADS, default=8),
        text.integer("ssm_state_size", 1, MOST_WIDTH),
        text.integer("conv_kernel", 1, MOST_TAPS, default=4),
        bias=text.flag("use_bias"),
        kernel_bias=text.flag("use_conv_bias", default=True),
    )


def _nemotron_mixture(text: Fields, d: Dimensions) -> Mixture:
    count = text.integer("n_routed_experts", 1, MOST_HEADS)
    shared = text.integer("n_shared_experts", 0, 1_000, default=0)
    if shared:
        shared *= text.integer("moe_shared_expert_intermediate_size", 1, MOST_WIDTH)
    return Mixture(
        d.hidden,
        count,
        text.integer("num_experts_per_tok", 1, count),
        text.integer("moe_intermediate_size", 1, MOST_WIDTH),
        module="mixer",
        gated=False,
        shared_width=shared,
        correction=True,
        latent=text.integer("moe_latent_size", 0, MOST_WIDTH, default=0),
    )


def granite_hybrid_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Granite-4: Mamba-2 or attention, then a mixture and a shared feed-forward, or that alone."""
    key = "layer_types" if text.has("layer_types") else "layers_block_type"
    names = layer_names(text, key, d.layers)
    shared = text.integer("shared_intermediate_size", 0, MOST_WIDTH, default=0)

    def build(attends: bool) -> Iterable[Part]:  # noqa: FBT001 - a kind of layer
        yield from (
            heads_attention(common_heads(d))
            if attends
            else mamba2(_mamba_d(text, d.hidden, "mamba"))
        )
        yield from common_mixture(d, table_row)
        if shared:
            yield from dense(
                Dense(d.hidden, shared, module="shared_mlp", up="input_linear",
                      down="output_linear", name="sharedExperts" if d.experts else "feedForward")
            )  # fmt: skip
        yield whole("norms", 2 * d.norm)

    return plan_of([name not in ("mamba", "mamba2") for name in names], build)


def bamba_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Bamba: Mamba-2, and attention in the layers of a list."""
    indices = text.items("attn_layer_indices", MOST_LAYERS)

    def build(attends: bool) -> Iterable[Part]:  # noqa: FBT001 - a kind of layer
        yield from (
            heads_attention(common_heads(d))
            if attends
            else mamba2(_mamba_d(text, d.hidden, "mamba"))
        )
        yield from common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([i in indices for i in range(d.layers)], build)


def falcon_h1_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    inner = text.integer("mamba_d_ssm", 0, MOST_WIDTH, default=0)
    mixer = replace(_mamba_d(text, d.hidden, "mamba", inner), norm=text.flag("mamba_rms_norm"))

    def build(_kind: int) -> Iterable[Part]:
        yield from heads_attention(common_heads(d))
        yield from mamba2(mixer)
        yield from common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([0] * d.layers, build)
