"""Layers of Gemma-4 and Gemma-3n, whose layers share K and V and read embeddings of their own.

Sources: vllm v0.32.0 model_executor/models/{gemma4,gemma3n}.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architecture import Architecture
from kvscale.core.model.attention import heads_attention
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.fields import Fields
from kvscale.core.model.layer_lists import layer_integers, layer_names
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, row, whole
from kvscale.core.model.plan_common import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    MOST_WIDTH,
    common_heads,
)
from kvscale.core.model.sizes import Dimensions

Extras = tuple[tuple[str, Part], ...]

MOST_VOCABULARY = 1 << 26
MOST_STREAMS = 64


def _kv_readers(text: Fields, layers: int) -> tuple[bool, ...]:
    """Which layers read the K and V of an earlier one: the last `num_kv_shared_layers`."""
    shared = text.integer("num_kv_shared_layers", 0, layers, default=0)
    return (False,) * (layers - shared) + (True,) * shared


def per_layer_embeddings(text: Fields, d: Dimensions) -> Extras:
    """The table of embeddings that every layer reads a part of, and the projection into it."""
    width = text.integer("hidden_size_per_layer_input", 0, MOST_WIDTH, default=0)
    if not width:
        return ()
    vocabulary = text.integer(
        "vocab_size_per_layer_input", 1, MOST_VOCABULARY, default=d.vocabulary
    )
    total = d.layers * width
    rows = -(-vocabulary // 64) * 64
    return (
        ("each", replace(column("embedding", "", total, rows), linear=False, touched=0)),
        ("each", replace(
            column("perLayerInput", "per_layer_model_projection", d.hidden, total)
        )),
        ("each", whole("norms", width)),
    )  # fmt: skip


def _per_layer_input(text: Fields, d: Dimensions) -> Iterable[Part]:
    width = text.integer("hidden_size_per_layer_input", 0, MOST_WIDTH, default=0)
    if width:
        yield replicated("perLayerInput", "per_layer_input_gate", d.hidden, width)
        yield replicated("perLayerInput", "per_layer_projection", width, d.hidden)
        yield whole("norms", d.hidden)


def gemma4_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Gemma-4: full layers with wider heads, a mixture beside the dense feed-forward."""
    names = layer_names(text, "layer_types", d.layers)
    readers = _kv_readers(text, d.layers)
    wider = replace(
        common_heads(d),
        head_dim=text.integer("global_head_dim", 1, MOST_HEAD_DIM, default=d.head_dim),
    )
    if text.flag("attention_k_eq_v"):
        # V is K of the checkpoint, but the engine keeps both.
        wider = replace(
            wider,
            kv_heads=text.integer("num_global_key_value_heads", 1, MOST_HEADS, default=d.kv_heads),
        )
    double = text.flag("use_double_wide_mlp")
    experts = d.experts

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        sliding, reader = kind
        heads = common_heads(d) if sliding else wider
        norm = heads.head_dim * (1 if reader else 2)
        yield from heads_attention(replace(heads, norm=norm, own_kv=not reader))
        yield from dense(Dense(d.hidden, d.width * (2 if double and reader else 1)))
        norms = 4
        if experts is not None:
            yield from mixture(
                Mixture(
                    d.hidden, experts.count, experts.per_token, experts.width,
                    module="", router_extra=d.hidden + experts.count,
                )
            )  # fmt: skip
            norms = 7
        yield from _per_layer_input(text, d)
        yield whole("norms", norms * d.hidden)

    plan = plan_of(
        [(n == "sliding_attention", r) for n, r in zip(names, readers, strict=True)], build
    )
    return replace(plan, extras=per_layer_embeddings(text, d))


def gemma3n_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Gemma-3n: parallel streams (AltUp), a low-rank block (Laurel), a width per layer."""
    readers = _kv_readers(text, d.layers)
    widths = layer_integers(text, "intermediate_size", d.layers, 1, MOST_WIDTH)
    streams = text.integer("altup_num_inputs", 1, MOST_STREAMS, default=4)
    rank = text.integer("laurel_rank", 1, MOST_WIDTH, default=64)
    heads = common_heads(d)

    def build(kind: tuple[bool, int]) -> Iterable[Part]:
        reader, width = kind
        norm = heads.head_dim * (1 if reader else 2)
        yield from heads_attention(replace(heads, norm=norm, own_kv=not reader))
        yield from dense(Dense(d.hidden, width))
        yield replicated("streams", "altup.correction_coefs", streams, streams)
        yield replicated("streams", "altup.prediction_coefs", streams, streams**2)
        yield replicated("streams", "altup.modality_router", d.hidden, streams)
        yield whole("streams", d.hidden, BITS["float32"])
        yield column("lowRank", "laurel.linear_left", d.hidden, rank)
        yield row("lowRank", "laurel.linear_right", rank, d.hidden)
        yield from _per_layer_input(text, d)
        # Four around attention and the feed-forward, one each of the streams and the low rank.
        yield whole("norms", 6 * d.hidden)

    plan = plan_of(list(zip(readers, widths, strict=True)), build)
    projections = 2 * (streams - 1) * d.hidden
    return replace(
        plan,
        extras=(
            *per_layer_embeddings(text, d),
            ("each", column("streams", "altup_projections", d.hidden, projections)),
        ),
    )
