"""Series of a pod, in the words of any engine, and what makes them unreadable.

Messages name the series and the flaw, never what a server wrote.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvscale.core.values import Unknown

EXACT = float(2**53)
"""Above it a double no longer tells whole numbers apart: no count of requests."""

_POSITIVE = re.compile(r"0*[1-9][0-9]{0,14}")


@dataclass(frozen=True, slots=True)
class Series:
    """One exposed number: its name as on the wire (counters with `_total`) and its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class UnreadableError(Exception):
    """Carries the Unknown that a pod's series amount to; does not leave the readers."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.unknown = Unknown(reason, message)


def of_model(series: list[Series], served_model_name: str) -> list[Series]:
    """The series of the one model; series that carry no model stay.

    Raises:
        UnreadableError: several models where none is asked for, or not the one that is.
    """
    models = {one.labels["model_name"] for one in series if "model_name" in one.labels}
    if not served_model_name:
        if len(models) > 1:
            raise UnreadableError(
                "SeveralModels",
                f"the pod reports {len(models)} model names; set metrics.servedModelName",
            )
        return series
    if models and served_model_name not in models:
        raise UnreadableError(
            "ModelNotServed",
            f"no series with model_name {served_model_name!r}; metrics.servedModelName must be"
            " the first name of --served-model-name, or the model where that is not given",
        )
    return [
        one
        for one in series
        if one.labels.get("model_name", served_model_name) == served_model_name
    ]


def checked(value: float, name: str, engine: str, highest: float) -> float:
    """The value, if it can be one.

    Raises:
        UnreadableError: it is not finite, negative, or above `highest`.
    """
    if not math.isfinite(value):
        flaw = "not a finite number"
    elif value < 0.0:
        flaw = "negative"
    elif value > highest:
        flaw = f"above {highest:g}"
    else:
        return value
    raise UnreadableError("InvalidSeries", f"{name} of engine {engine} is {flaw}")


def positive(labels: Mapping[str, str], name: str) -> int | None:
    """A positive integer label; None when unset ("None"), absent or anything else."""
    text = labels.get(name, "")
    return int(text) if _POSITIVE.fullmatch(text) else None


def counter(value: float | None) -> float | None:
    """A counter's value; None where it is absent or can be none."""
    return value if value is not None and math.isfinite(value) and value >= 0.0 else None
