"""Values as scripts read them: what the documents of all commands have in common."""

from typing import Any

from kvscale.core.refusal import Refusal
from kvscale.core.trace import Trace
from kvscale.core.values import Band

Document = dict[str, Any]


def band_document(value: Band) -> Document:
    """A band for a script."""
    return {"low": value.low, "expected": value.expected, "high": value.high}


def refusal_document(refusal: Refusal) -> Document:
    """A refusal for a script."""
    return {"reason": refusal.reason, "field": refusal.field, "message": refusal.message}


def trace_document(trace: Trace) -> list[Document]:
    """The steps for a script."""
    return [
        {
            "name": step.name,
            "value": step.value,
            "unit": step.unit,
            "formula": step.formula,
            "inputs": dict(step.inputs),
            "source": step.source,
        }
        for step in trace
    ]
