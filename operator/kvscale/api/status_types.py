"""Types of the status' fields: texts, lists and numbers that are cut to the schema's limits.

A status that is refused whole for one long message, or for the absurd number that one engine
reports, would leave its reader with the previous one, so the limits are kept here, where the schema
states them.
"""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from kvscale.api.rules import ApiModel
from kvscale.core.values import Band


def _clip(limit: int) -> BeforeValidator:
    def clip(text: Any) -> Any:
        if isinstance(text, str) and len(text) > limit:
            return text[: limit - 1] + "…"
        return text

    return BeforeValidator(clip)


def _saturated(number: Any) -> Any:
    return min(max(number, -(2**63)), 2**63 - 1) if isinstance(number, int) else number


def first(limit: int) -> BeforeValidator:
    """Cuts a list to its first items."""
    return BeforeValidator(lambda items: tuple(items)[:limit])


def last(limit: int) -> BeforeValidator:
    """Cuts a list to its last items."""
    return BeforeValidator(lambda items: tuple(items)[-limit:])


ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}

Word = Annotated[str, Field(max_length=253), _clip(253)]
Sentence = Annotated[str, Field(max_length=1024), _clip(1024)]
Message = Annotated[str, Field(max_length=4096), _clip(4096)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=64)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), BeforeValidator(_saturated)]
Sentences = Annotated[
    tuple[Sentence, ...], Field(max_length=16, json_schema_extra=ATOMIC), first(16)
]


class BandModel(ApiModel):
    """An estimate: it may be as small as low and as large as high. Equal when known exactly."""

    low: Int64
    """Smallest."""
    expected: Int64
    """Most likely."""
    high: Int64
    """Largest."""

    @classmethod
    def of(cls, band: Band) -> "BandModel":
        """The band of the core."""
        return cls(low=band.low, expected=band.expected, high=band.high)
