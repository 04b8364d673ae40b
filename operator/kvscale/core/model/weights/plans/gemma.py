"""Layers of Gemma-4 and Gemma-3n, whose layers share K and V and read embeddings of their own.

Sources: vllm v0.32.0 model_executor/models/{gemma4,gemma3n}.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_VOCABULARY, MOST_WIDTH
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.lists import layer_integers
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, row, whole
from kvscale.core.model.weights.attention import heads_attention
from kvscale.core.model.weights.feed_forward import Dense, Mixture, dense, mixture
from kvscale.core.model.weights.plans.common import common_heads, layer_heads_block
from kvscale.core.model.weights.sizes import Dimensions

Extras = tuple[tuple[str, Part], ...]

MOST_STREAMS = 64


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


def gemma4_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Gemma-4: full layers with wider heads, a mixture beside the dense feed-forward."""
    double = text.flag("use_double_wide_mlp")
    experts = d.experts

    def build(mixer: Mixer) -> Iterable[Part]:
        heads = layer_heads_block(text, d, table_row, mixer)
        reader = mixer.reads_another
        yield from heads_attention(replace(heads, norm=heads.head_dim * (1 if reader else 2)))
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

    plan = plan_of(d.mixers, build)
    return replace(plan, extras=per_layer_embeddings(text, d))


def gemma3n_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Gemma-3n: parallel streams (AltUp), a low-rank block (Laurel), a width per layer."""
    readers = [mixer.reads_another for mixer in d.mixers]
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
