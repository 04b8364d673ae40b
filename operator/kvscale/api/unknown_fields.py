"""Fields of a file that the API does not have, as `kubectl apply` finds them.

The operator passes them by, because the CRD may be newer than it. In a file that a person checks
before it is applied, such a field is a slip: it would be as if the line were not there.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from kvscale.api.crd import structural_schema
from kvscale.api.inferencepool import InferencePoolSpec

_SHOWN: Final = 60


def unknown_fields(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """One sentence for each field of the spec that is none, with the one that may be meant."""
    return tuple(_unknown(spec, structural_schema(InferencePoolSpec), "spec"))


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        known: Mapping[str, Any] = schema.get("properties", {})
        for key, child in value.items():
            if key in known:
                yield from _unknown(child, known[key], f"{path}.{key}")
            elif known:
                yield f"{path}.{str(key)[:_SHOWN]}: {_meant(str(key), known)}"
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from _unknown(child, schema.get("items", {}), f"{path}[{position}]")


def _meant(key: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(key[:_SHOWN], list(known), n=1)
    return f"there is no such field: did you mean {close[0]}?" if close else (
        f"there is no such field: leave it out, or use one of {', '.join(known)}"
    )  # fmt: skip
