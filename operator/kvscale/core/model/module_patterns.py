"""Which modules a quantised checkpoint leaves as they are: its ignore list, matched boundedly.

The lists are long (one entry per layer and module) and mix four spellings: full names, parts of
names ("visual"), shell wildcards ("model.layers.3.self_attn*") and, after "re:", regular
expressions. Regular expressions come from a file that anybody wrote, so only those that cannot
backtrack for long are run.

Sources: vllm v0.32.0 model_executor/layers/quantization/utils/quant_utils.py (is_layer_skipped),
quantization/modelopt.py (is_layer_excluded), compressed_tensors/utils.py (check_equal_or_regex).
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from kvscale.core.model.fields import Refused

MOST_PATTERNS = 100_000
MOST_CHARACTERS = 300
MOST_REPEATS = 4

_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,4})(?=$|\.)")
_SAFE = re.compile(r"[\w\-.*+?^$|()\\\[\]]*")
_NESTED = re.compile(r"[)\]][*+]|[*+?][*+]")


def _compiled(expression: str, field: str) -> re.Pattern[str]:
    """A regular expression, if its running time is bounded.

    Raises:
        Refused: too long, a repeated group, too many repeats, or not an expression at all.
    """
    if (
        len(expression) <= MOST_CHARACTERS
        and _SAFE.fullmatch(expression)
        and not _NESTED.search(expression)
        and sum(expression.count(sign) for sign in "*+") <= MOST_REPEATS
    ):
        try:
            return re.compile(expression)
        except re.error:
            pass
    raise Refused(
        "UnsupportedQuantization",
        field,
        f"{field} holds the regular expression {expression[:60]!r}, which is not run because its "
        "running time has no bound; write plain names or wildcards",
    )


class ModulePatterns:
    """A list of modules by pattern; asks whether a module is in it."""

    __slots__ = ("_by_layer", "_expressions", "_names", "_wildcards")

    def __init__(self, patterns: Iterable[object], field: str) -> None:
        """Sort the patterns by how they are matched; those that name a layer by its number.

        Raises:
            Refused: an expression that cannot be run.
        """
        self._names: set[str] = set()
        self._wildcards: list[str] = []
        self._by_layer: dict[str, list[str]] = {}
        self._expressions: list[re.Pattern[str]] = []
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > MOST_CHARACTERS:
                continue  # no module has such a name
            if pattern.startswith("re:"):
                if len(self._expressions) < MOST_CHARACTERS:
                    self._expressions.append(_compiled(pattern.removeprefix("re:"), field))
            elif "*" not in pattern:
                self._names.add(pattern)
            elif pattern.count("*") <= MOST_REPEATS:
                layer = _LAYER.search(pattern)
                bucket = self._by_layer.setdefault(layer[1], []) if layer else self._wildcards
                bucket.append(pattern)

    def __contains__(self, module: str) -> bool:
        """Whether the module, or something that holds it, is in the list."""
        parts = module.split(".")
        # A wildcard may end at something that holds the module ("model.layers.*.self_attn").
        holders = [".".join(parts[:last]) for last in range(2, len(parts) + 1)]
        spellings = [*holders, *(f"language_model.{holder}" for holder in holders)]
        runs = (
            ".".join(parts[first:last])
            for first in range(len(parts))
            for last in range(first + 1, len(parts) + 1)
            # A bare number or "layers" says nothing about a module.
            if not parts[last - 1].isdigit() or last - first > 1
        )
        if not self._names.isdisjoint((*runs, *spellings, f"language_model.{module}")):
            return True
        layer = _LAYER.search(module)
        wildcards = self._wildcards + (self._by_layer.get(layer[1], []) if layer else [])
        if any(fnmatchcase(name, wild) for wild in wildcards for name in spellings):
            return True
        return any(
            found.match(name)
            for found in self._expressions
            for name in (module, f"language_model.{module}")
        )
