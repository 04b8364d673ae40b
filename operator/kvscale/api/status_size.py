"""The status stays small: what only explains is shortened before anything else is.

A status is stored, watched and read whole. Its texts have limits of their own, which together
would still let one pool take most of what an object may hold.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

LARGEST_BYTES: Final = 30_000
"""Of the status as JSON. A usual one has 5,000."""

_LIMITS: Final = (512, 128, 32)
"""Characters that the texts are cut to, one after the other, until the status fits."""

_TEXTS: Final = frozenset({"message", "detail", "formula", "inputs", "source"})
_LISTS: Final = frozenset({"assumptions", "contradictions", "missingPods"})


def within_limits(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status, with its explanations shortened as far as its size asks for.

    Numbers, names, reasons and what must survive a restart stay as they are.

    Args:
        status: valid by the schema.
    """
    fitting = dict(status)
    for limit in _LIMITS:
        if _size(fitting) <= LARGEST_BYTES:
            return fitting
        fitting = {key: _cut(key, value, limit) for key, value in status.items()}
    if _size(fitting) > LARGEST_BYTES and "decision" in fitting:
        decision = fitting["decision"]
        fitting["decision"] = {key: decision[key] for key in decision if key != "trace"}
    return fitting


def _size(status: Mapping[str, Any]) -> int:
    return len(json.dumps(status, ensure_ascii=False, separators=(",", ":")).encode())


def _cut(key: str, value: Any, limit: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(name, child, limit) for name, child in value.items()}
    if isinstance(value, list):
        return [_cut(key, item, limit) for item in value]
    if isinstance(value, str) and key in _TEXTS | _LISTS and len(value) > limit:
        return value[: limit - 1] + "…"
    return value
