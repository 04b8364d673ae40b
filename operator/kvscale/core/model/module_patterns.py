"""Which modules a quantised checkpoint leaves as they are: its ignore list, matched boundedly.

The lists are long (one entry per layer and module) and mix four spellings: full names, parts of
names ("visual"), shell wildcards ("model.layers.3.self_attn*") and, after "re:", regular
expressions. They come from a file that anybody wrote, so their number is bounded, and only
regular expressions that cannot backtrack for long are run.

Sources: vllm v0.32.0 model_executor/layers/quantization/utils/quant_utils.py (is_layer_skipped),
quantization/modelopt.py (is_layer_excluded), compressed_tensors/utils.py (check_equal_or_regex).
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from kvscale.core.model.fields import Refused

MOST_PATTERNS = 100_000
MOST_CHARACTERS = 300
MOST_WILDCARDS = 512
"""Wildcards that may apply to one module."""
MOST_EXPRESSIONS = 32
MOST_REPEATS = 2
"""Repeats of an expression: its running time grows with that power of a name's length."""

_WRAPPER = "language_model."
"""Prefix of the text model's modules in a multimodal checkpoint."""

_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,4})(?=$|\.)")
_SAFE = re.compile(r"[\w\-.*+?^$|()\\\[\]]*")
_NESTED = re.compile(r"[)\]][*+?]|[*+?][*+]")


def _refused(field: str, what: str) -> Refused:
    return Refused(
        "UnsupportedQuantization",
        field,
        f"{field} holds {what}; write plain module names or wildcards",
    )


def _expression(text: str, field: str) -> re.Pattern[str]:
    """A regular expression, if its running time is bounded.

    Raises:
        Refused: too long, a repeated group, too many repeats, or not an expression at all.
    """
    bare = text.removesuffix(".*")  # whatever follows, it has matched by then
    if (
        len(text) <= MOST_CHARACTERS
        and _SAFE.fullmatch(text)
        and not _NESTED.search(bare)
        and sum(bare.count(sign) for sign in "*+") <= MOST_REPEATS
    ):
        try:
            return re.compile(bare)
        except re.error:
            pass
    raise _refused(
        field, f"the regular expression {text[:60]!r}, whose running time has no bound here"
    )


def _alternatives(wildcards: Sequence[str], field: str) -> re.Pattern[str]:
    """One expression for all the wildcards, each of which also covers what lies below it.

    A shell wildcard becomes atomic groups, which do not backtrack.

    Raises:
        Refused: more than `MOST_WILDCARDS`.
    """
    if len(wildcards) > MOST_WILDCARDS:
        raise _refused(field, f"more than {MOST_WILDCARDS} wildcards for one module")
    bodies = "|".join(re.sub(r"\\[Zz]$", "", translate(wildcard)) for wildcard in wildcards)
    return re.compile(rf"(?:{bodies})(?:\..*)?\Z")


class ModulePatterns:
    """A list of modules by pattern; asks whether a module is in it."""

    __slots__ = ("_by_layer", "_expressions", "_names", "_wildcards")

    def __init__(self, patterns: Iterable[object], field: str) -> None:
        """Sort the patterns by how they are matched; wildcards by the layer that they name.

        Raises:
            Refused: an expression that cannot be run, or too many of a kind.
        """
        names: set[str] = set()
        wildcards: dict[str, list[str]] = {}
        self._expressions: list[re.Pattern[str]] = []
        for pattern in patterns:
            if not isinstance(pattern, str):
                continue  # no module has such a name
            if pattern.startswith("re:"):
                if len(self._expressions) == MOST_EXPRESSIONS:
                    raise _refused(field, f"more than {MOST_EXPRESSIONS} regular expressions")
                self._expressions.append(_expression(pattern.removeprefix("re:"), field))
            elif "*" in pattern and len(pattern) <= MOST_CHARACTERS:
                bare = pattern.removeprefix(_WRAPPER)
                layer = _LAYER.search(bare)
                wildcards.setdefault(layer[1] if layer else "", []).append(bare)
            else:
                names.add(pattern.removeprefix(_WRAPPER))
        self._names = names
        self._wildcards = _alternatives(wildcards.pop("", []) or ["\0"], field)
        self._by_layer = {
            layer: _alternatives(found, field) for layer, found in wildcards.items()
        }  # fmt: skip

    def __contains__(self, module: str) -> bool:
        """Whether the module, or something that holds it, is in the list."""
        parts = module.split(".")
        runs = (
            ".".join(parts[first:last])
            for first in range(len(parts))
            for last in range(first + 1, len(parts) + 1)
            # A number alone names no module.
            if last - first > 1 or not parts[first].isdigit()
        )
        if not self._names.isdisjoint(runs) or self._wildcards.match(module):
            return True
        layer = _LAYER.search(module)
        own = self._by_layer.get(layer[1]) if layer else None
        if own is not None and own.match(module):
            return True
        return any(
            found.match(name)
            for found in self._expressions
            for name in (module, f"{_WRAPPER}{module}")
        )
