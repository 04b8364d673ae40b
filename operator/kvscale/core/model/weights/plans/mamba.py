"""Layers of models with Mamba mixers, alone or beside attention.

Sources: vllm v0.32.0 model_executor/models/{nemotron_h,granitemoehybrid,jamba,falcon_h1,zamba2,
mamba,mamba2}.py; Bamba after transformers v4.57 models/bamba/configuration_bamba.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_HEADS, MOST_WIDTH
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.lists import layer_integers
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.layers.stateful import nemotron_letters
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.states.reading import falcon_h1, named_mamba2, nemotron_h
from kvscale.core.model.weights.attention import heads_attention
from kvscale.core.model.weights.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.weights.plans.common import common_dense, common_heads, common_mixture
from kvscale.core.model.weights.sizes import Dimensions


def nemotron_h_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Nemotron-H and Nemotron-3: each layer is a mixer or a feed-forward, not both."""
    pattern = nemotron_letters(text)[: d.layers]
    mixer = nemotron_h(text) if "M" in pattern else None
    widths = iter(_nemotron_widths(text, pattern.count("-")))
    kinds = [(letter, next(widths) if letter == "-" else 0) for letter in pattern]

    def build(kind: tuple[str, int]) -> Iterable[Part]:
        letter, width = kind
        if letter == "M" and mixer is not None:
            yield from mixer.parts(d.hidden)
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
    shared = text.integer("shared_intermediate_size", 0, MOST_WIDTH, default=0)

    def build(kind: Mixer) -> Iterable[Part]:
        yield from (
            heads_attention(common_heads(d))
            if kind is Mixer.FULL
            else named_mamba2(text).parts(d.hidden)
        )
        yield from common_mixture(d, table_row)
        if shared:
            yield from dense(
                Dense(d.hidden, shared, module="shared_mlp", up="input_linear",
                      down="output_linear", name="sharedExperts" if d.experts else "feedForward")
            )  # fmt: skip
        yield whole("norms", 2 * d.norm)

    return plan_of(d.mixers, build)


def bamba_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Bamba: Mamba-2, and attention in the layers of a list."""

    def build(kind: Mixer) -> Iterable[Part]:
        yield from (
            heads_attention(common_heads(d))
            if kind is Mixer.FULL
            else named_mamba2(text).parts(d.hidden)
        )
        yield from common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of(d.mixers, build)


def falcon_h1_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    mixer = falcon_h1(text)

    def build(_kind: int) -> Iterable[Part]:
        yield from heads_attention(common_heads(d))
        yield from mixer.parts(d.hidden)
        yield from common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([0] * d.layers, build)
