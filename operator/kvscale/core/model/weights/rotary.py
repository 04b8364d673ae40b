"""The rotary tables that a model keeps on the device, and the length that they cover.

A table has a row per position and a column per rotated element (cosines and sines, each half as
many). Layers with the same parameters share one.

Source: vllm v0.32.0 model_executor/layers/rotary_embedding (`get_rope` and the classes).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kvscale.core.model.bounds import MOST_HEAD_DIM
from kvscale.core.model.fields import Fields
from kvscale.core.model.positions import (
    MOST_POSITIONS,
    rope_fields,
    stated_positions,
    stretched,
)
from kvscale.core.model.weights.sizes import Rotary


def rotated(text: Fields, rope: Fields | None, head_dim: int) -> int:
    """Elements of a head that are rotated."""
    for fields in (text, rope):
        if fields is not None and fields.has("rotary_dim"):
            return fields.integer("rotary_dim", 1, MOST_HEAD_DIM)
    share = text.number("partial_rotary_factor", 0.0, 1.0, text.number("rotary_pct", 0.0, 1.0, 1.0))
    if rope is not None:
        share = rope.number("partial_rotary_factor", 0.0, 1.0, share)
    return int(head_dim * share)


def _table(text: Fields, rope: Fields | None, head_dim: int, factor: int, dtype: str) -> Rotary:
    """The table of one set of parameters."""
    stated = stated_positions(text)
    longest = 0 if stated is None else stretched(stated, rope)
    width = rotated(text, rope, head_dim)
    if rope is None:
        return Rotary(longest, width, dtype)
    kind = rope.text("rope_type", rope.text("type"))
    if kind == "proportional":
        width = head_dim  # what is not rotated has a cosine of 1
    if kind in ("longrope", "su"):
        # One part for the original length, one for the long one.
        longest += rope.integer(
            "original_max_position_embeddings", 0, MOST_POSITIONS,
            text.integer("original_max_position_embeddings", 0, MOST_POSITIONS, 0),
        )  # fmt: skip
    if rope.has("mrope_section"):
        longest *= factor
    return Rotary(longest, width, dtype)


def rotary_tables(
    text: Fields, head_dim: int, *, factor: int = 1, latent: bool = False, fp32: bool = False
) -> tuple[Rotary, ...]:
    """The tables of a model, one for each set of parameters that its layers rotate by.

    Args:
        text: the text model's config.
        head_dim: elements of Q and K per head, or those of MLA that are rotated.
        factor: how many times longer the table for text and images is.
        latent: of MLA, whose scaled tables are in fp32 (deepseek_scaling_rope.py).
        fp32: in fp32 whatever the model's format.
    """
    rope = rope_fields(text)
    by_type = [] if rope is None else [
        child for name in ("full_attention", "sliding_attention")
        if isinstance(rope.data.get(name), Mapping)
        if (child := rope.child(name)) is not None
    ]  # fmt: skip
    if by_type:
        full = text.integer("global_head_dim", 1, MOST_HEAD_DIM, default=head_dim)
        return tuple(
            _table(text, own, full if own is by_type[0] else head_dim, factor, "")
            for own in by_type
        )
    kind = rope.text("rope_type", rope.text("type")) if rope is not None else ""
    dtype = "float32" if fp32 or (latent and kind == "yarn") else ""
    table = _table(text, rope, head_dim, factor, dtype)
    if text.has("rope_local_base_freq") or text.has("swa_rope_theta"):
        # Layers with a window rotate by another base, unscaled.
        return (table, _table(text, None, head_dim, factor, ""))
    return (table,)


def used_tables(tables: Sequence[Rotary], users: Iterable[Sequence[bool]]) -> tuple[Rotary, ...]:
    """The tables with the layers that rotate by each; without those that no layer does.

    A layer makes its table or takes over that of an earlier one, so that a pipeline stage has only
    those of its own layers.

    Args:
        tables: of the model.
        users: for each of them, layer by layer, whether it rotates by it.
    """
    placed = (
        replace(table, layers=tuple(index for index, uses in enumerate(layers) if uses))
        for table, layers in zip(tables, users, strict=True)
    )
    return tuple(table for table in placed if table.layers)
