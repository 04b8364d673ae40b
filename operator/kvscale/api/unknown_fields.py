"""Fields of a file that the API does not have, as `kubectl apply` finds them.

The operator passes them by, because the CRD may be newer than it. In a file that a person checks
before it is applied, such a field is a slip: it would be as if the line were not there.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args

from kvscale.api.inferencepool import InferencePoolSpec
from kvscale.api.rules import ApiModel

_SHOWN: Final = 60


def unknown_fields(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """One sentence for each field of the spec that is none, with the one that may be meant."""
    return tuple(_unknown(spec, InferencePoolSpec, "spec"))


def _unknown(value: Any, kind: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for position, child in enumerate(value):
            yield from _unknown(child, kind, f"{path}[{position}]")
        return
    model = _model_in(kind)
    if model is None or not isinstance(value, Mapping):
        return
    known = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, child in value.items():
        if key in known:
            yield from _unknown(child, known[key].annotation, f"{path}.{key}")
        else:
            yield f"{path}.{str(key)[:_SHOWN]}: {_meant(str(key), known)}"


def _model_in(kind: Any) -> type[ApiModel] | None:
    """The object that an annotation speaks of: itself, of a list, or with something beside it."""
    if isinstance(kind, type) and issubclass(kind, ApiModel):
        return kind
    return next((model for part in get_args(kind) if (model := _model_in(part))), None)


def _meant(key: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(key[:_SHOWN], list(known), n=1)
    return f"there is no such field: did you mean {close[0]}?" if close else (
        f"there is no such field: leave it out, or use one of {', '.join(known)}"
    )  # fmt: skip
