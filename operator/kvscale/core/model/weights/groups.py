"""A model's parameters, grouped by how they are stored and split.

The layers come part by part from the architecture's plan; here they meet the checkpoint's
quantisation and are merged: equal parts of many layers become one group.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.checkpoint.quantization import Quantization
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part
from kvscale.core.model.shape import WeightGroup
from kvscale.core.model.weights.sizes import Dimensions

VOCABULARY_PADDING = 64
"""vllm v0.32.0 model_executor/layers/vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE."""


def padded_vocabulary(size: int) -> int:
    """The vocabulary as the engine stores it."""
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING


def _group(part: Part, bits: int, stage: str = "all") -> WeightGroup:
    return WeightGroup(
        part.name, part.parameters, bits,
        split_by_tensor_parallel=part.split, touched_share_milli=part.touched, stage=stage,
        split_at_most=part.at_most, split_by_data_parallel=part.by_data, experts=part.experts,
        buffer=part.buffer,
        derived=part.derived, quantizable=part.linear, units=part.units or None,
    )  # fmt: skip


def _layers(d: Dimensions, quantization: Quantization) -> Iterator[tuple[list[int], WeightGroup]]:
    """Each part of each kind of layer in each storage, with the layers that have it so."""
    plain = BITS[d.dtype]
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    known: dict[tuple[int, int | None], tuple[int, ...]] = {}
    for index, kind in enumerate(d.plan.layers):
        # A layer that no pattern names is stored as any other of its kind.
        place = index if quantization.names_layer(index) else None
        stored = known.get((kind, place))
        if stored is None:
            stored = tuple(
                part.bits
                or (
                    quantization.bits(f"model.layers.{index}.{part.module}", d.dtype)
                    if part.linear
                    else plain
                )
                for part in d.plan.kinds[kind]
            )
            known[kind, place] = stored
        alike.setdefault((kind, stored), []).append(index)
    for (kind, stored), indices in alike.items():
        for part, bits in zip(d.plan.kinds[kind], stored, strict=True):
            group = _group(part, bits)
            yield (
                indices,
                quantization.stored(
                    replace(group, parameters=group.parameters * len(indices)), d.hidden
                ),
            )


def _merged(groups: Iterable[tuple[list[int], WeightGroup]], count: int) -> tuple[WeightGroup, ...]:
    """Groups that are alike but for their layers become one, with the span of its layers."""
    found: dict[tuple[WeightGroup, int], tuple[WeightGroup, set[int]]] = {}
    for indices, group in groups:
        key = (replace(group, parameters=0, padded=()), len(group.padded))
        known = found.get(key)
        if known is None:
            found[key] = (group, set(indices))
        else:
            known[1].update(indices)
            found[key] = (_sum(known[0], group), known[1])
    return tuple(_placed(group, sorted(indices), count) for group, indices in found.values())


def _placed(group: WeightGroup, layers: list[int], count: int) -> WeightGroup:
    """The group with the layers that hold it, if these are not all."""
    if len(layers) == count:
        return group
    first, end = layers[0], layers[-1] + 1
    span = len(layers) == end - first
    return replace(
        group,
        layer_span=(first, end) if span else None,
        layer_positions=() if span else tuple(layers),
    )


def _sum(one: WeightGroup, other: WeightGroup) -> WeightGroup:
    return replace(
        one,
        parameters=one.parameters + other.parameters,
        padded=tuple(
            replace(a, parameters=a.parameters + b.parameters)
            for a, b in zip(one.padded, other.padded, strict=True)
        ),
    )


def weight_groups(
    d: Dimensions, architecture: Architecture, quantization: Quantization
) -> tuple[WeightGroup, ...]:
    """Every parameter of the text model, and the buffers that come with it.

    Args:
        d: the model in numbers, with its layers.
        architecture: its row of the table.
        quantization: how the checkpoint is stored.
    """
    plain = BITS[d.dtype]
    rows = padded_vocabulary(d.vocabulary) * d.hidden
    whole = architecture.whole_embedding
    everywhere = architecture.on_every_stage
    ends = [
        WeightGroup(
            "embedding", d.vocabulary * d.hidden if whole else rows, plain,
            split_by_tensor_parallel=not whole,
            stage="each" if "embedding" in everywhere else "ends" if d.tied else "first",
            touched_share_milli=1000 if d.tied else 0,
        ),
        WeightGroup(
            "finalNorm", d.norm, plain, split_by_tensor_parallel=False, stage="last",
        ),
    ]  # fmt: skip
    if not d.tied:
        bits = quantization.bits("lm_head", d.dtype)
        stage = "each" if "head" in everywhere else "last"
        ends.append(WeightGroup("head", rows, bits, stage=stage))
    if architecture.head_bias:
        ends.append(WeightGroup("head", padded_vocabulary(d.vocabulary), plain, stage="last"))
    for stage, part in d.plan.extras:
        if not part.parameters:
            continue
        bits = part.bits or (
            quantization.bits(f"model.{part.module}", d.dtype) if part.linear else plain
        )
        ends.append(_group(part, bits, stage))
    ends.extend(
        WeightGroup(
            "rotaryTable", table.positions * table.width, BITS[table.dtype or d.dtype],
            split_by_tensor_parallel=False, touched_share_milli=0, stage="each", buffer=True,
            layer_positions=table.layers if len(table.layers) < d.layers else (),
        )
        for table in d.rotary
        if table.positions * table.width
    )  # fmt: skip
    return (*_merged(_layers(d, quantization), d.layers), *ends)
