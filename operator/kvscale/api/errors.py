"""Validation errors as one line for a person: the field, what is wrong, and the mend."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kvscale.api.rules import RULE_ERROR

MAX_ERRORS: Final = 5
"""More than these are only counted: the message stands in a condition."""

_TEXTS: Final[Mapping[str, str]] = {
    "missing": "is missing: set it",
    "greater_than_equal": "{input} is too small: use {ge} or more",
    "less_than_equal": "{input} is too large: use {le} or less",
    "int_type": "{input} is no whole number: write one without quotes",
    "string_type": "{input} is no text: put it in quotes",
    "string_pattern_mismatch": "{input} does not have the form {pattern}: correct it",
    "string_too_long": "is longer than {max_length} characters: shorten it",
    "too_short": "has too few items: give at least {min_length}",
    "too_long": "has {actual_length} items: give at most {max_length}",
    "enum": "{input} is not known: use {expected}",
    "literal_error": "{input} is not known: use {expected}",
    "model_type": "{input} is no object: give its fields",
    "model_attributes_type": "{input} is no object: give its fields",
    "tuple_type": "{input} is no list: start each item with a dash",
}
_MAX_INPUT: Final = 60


def _path(root: str, location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return root + "".join(parts)


def _shown(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_INPUT else text[: _MAX_INPUT - 1] + "…"


def _sentence(root: str, error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == RULE_ERROR:
        return f"{_path(root, error['loc'])}.{context['field']}: {context['text']}"
    template = _TEXTS.get(error["type"])
    values = {**context, "input": _shown(error["input"])}
    text = error["msg"] if template is None else template.format_map(values)
    return f"{_path(root, error['loc'])}: {text}"


def describe(error: ValidationError, root: str = "spec") -> str:
    """All errors in one line, the field first: "spec.scaling.maxReplicas: 3 is below ...".

    Args:
        error: of a model of this package.
        root: what the model is called in the object.
    """
    details = error.errors(include_url=False)
    inner = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    # pydantic counts only the valid items of a list: with a bad one it also calls the list short
    details = [d for d in details if not (d["type"] == "too_short" and d["loc"] in inner)]
    sentences = [_sentence(root, detail) for detail in details[:MAX_ERRORS]]
    if len(details) > MAX_ERRORS:
        sentences.append(f"and {len(details) - MAX_ERRORS} more")
    return "; ".join(sentences)
