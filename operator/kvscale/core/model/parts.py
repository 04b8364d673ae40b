"""The parameters of one layer, part by part: what is stored, what is split, what is quantised.

A layer is a tuple of parts. The functions here say how the engine spreads a matrix over the ranks
of tensor parallelism: column-parallel matrices split their bias too, row-parallel ones repeat it,
replicated ones are held whole by every rank (vllm v0.32.0 model_executor/layers/linear.py).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Part:
    """Parameters of one layer that are stored and split alike.

    Attributes:
        name: what they are, for the trace ("attention", "experts", ...).
        module: their module inside the layer, as checkpoints call it ("self_attn.q_proj").
        parameters: how many in one layer.
        split: shared by the ranks of tensor parallelism; False: each holds all.
        at_most: no more shares than this (KV heads); None: no limit.
        linear: a matrix that a checkpoint can store quantised.
        touched: thousandths of it that one decode step of one token reads.
        by_data: shared by the ranks of data parallelism too (experts).
        experts: routed experts of the layer that it is of; 0: none.
        bits: thousandths of a bit per parameter; 0: as the model's dtype, or as quantised.
        units: size of the dimension that is split; 0: not stated. Kernels that need a multiple of
            something per rank pad this dimension.
        buffer: device memory that comes with the layer without being a parameter.
        derived: a copy that the engine makes after loading.
    """

    name: str
    module: str
    parameters: int
    split: bool = True
    at_most: int | None = None
    linear: bool = True
    touched: int = 1000
    by_data: bool = False
    experts: int = 0
    bits: int = 0
    units: int = 0
    buffer: bool = False
    derived: bool = False


Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The layers of a model, by kind.

    Attributes:
        kinds: the parts of each kind of layer.
        layers: for each layer its index in `kinds`.
        extras: parts beside the layers, each with its pipeline stage ("first", "last", "each").
    """

    kinds: tuple[Parts, ...]
    layers: tuple[int, ...]
    extras: tuple[tuple[str, Part], ...] = ()


def plan_of(layers: Sequence[K], build: Callable[[K], Iterable[Part]]) -> Plan:
    """Build every kind of layer once.

    Args:
        layers: the kind of each layer, by any value that tells kinds apart.
        build: the parts of a layer of that kind.
    """
    order = {kind: index for index, kind in enumerate(dict.fromkeys(layers))}
    return Plan(
        tuple(tuple(part for part in build(kind) if part.parameters) for kind in order),
        tuple(order[kind] for kind in layers),
    )


def column(name: str, module: str, inputs: int, outputs: int, *, bias: bool = False) -> Part:
    """A column-parallel matrix: outputs, and their biases, are split."""
    return Part(name, module, outputs * (inputs + bias), units=outputs)


def row(name: str, module: str, inputs: int, outputs: int) -> Part:
    """A row-parallel matrix: inputs are split. Its bias is a `whole` of its own."""
    return Part(name, module, inputs * outputs, units=inputs)


def replicated(name: str, module: str, inputs: int, outputs: int) -> Part:
    """A matrix that every rank holds whole."""
    return Part(name, module, inputs * outputs, split=False)


def whole(name: str, parameters: int, bits: int = 0) -> Part:
    """Parameters that are no matrix (norms, biases, routers): held whole, never quantised."""
    return Part(name, "", parameters, split=False, linear=False, bits=bits)


def shared(name: str, parameters: int, bits: int = 0) -> Part:
    """Parameters that are no matrix but are split (one per head or channel): never quantised."""
    return Part(name, "", parameters, linear=False, bits=bits)
