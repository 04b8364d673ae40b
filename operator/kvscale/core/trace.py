"""The named steps that explain a number.

Every number that a person may ask about is a step. `plan`, `explain`, status and the record all
print the same steps, so the arithmetic has one account of itself.
"""

from dataclasses import dataclass

Scalar = int | float | str
Inputs = tuple[tuple[str, Scalar], ...]
"""Named values that went into a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of arithmetic.

    Attributes:
        name: camelCase and stable; people search the code for it.
        value: the result.
        unit: "bytes", "blocks", "tokens", "sequences", "replicas", "seconds", ... or "".
        formula: the rule in words and symbols, naming the inputs.
        inputs: the named values that went in.
        source: where the rule is from (project, version, file, or a paper), or "".
    """

    name: str
    value: Scalar
    unit: str
    formula: str
    inputs: Inputs = ()
    source: str = ""


Trace = tuple[Step, ...]


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 replica, 2 replicas."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def find(trace: Trace, name: str) -> Step | None:
    """The first step of that name, or None."""
    return next((step for step in trace if step.name == name), None)
