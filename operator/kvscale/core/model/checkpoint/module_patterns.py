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

MOST_PATTERNS = 30_000
"""Of a list; the longest published one has 712, and a ConfigMap holds about as many."""
MOST_CHARACTERS = 300
MOST_WILDCARDS = 32
"""Wildcards with more than a star at the end."""
MOST_SPECIAL = 4096
MOST_PREFIXES = 512
"""Wildcards with a star at the end that may apply to one module."""
MOST_EXPRESSIONS = 32
MOST_STARS = 10
"""Stars of a wildcard; a checkpoint's have three at most."""
MOST_DIGITS = 5
"""Characters behind "layers." that are looked at for its number."""
MOST_REPEATS = 2
"""Repeats of an expression: its running time grows with that power of a name's length."""

_WRAPPER = "language_model."
"""Prefix of the text model's modules in a multimodal checkpoint."""

_LAYERS = "layers."
_BEFORE_LAYERS = frozenset({
    "", "model.", "backbone.", "transformer.", "text_model.", "language_model.",
    "language_model.model.", "model.language_model.", "model.language_model.model.",
})  # fmt: skip
"""What checkpoints write before the layers of the text model; others (a draft's) are not its."""

_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,4})(?=$|\.|\*)")
_ANY_LAYER = re.compile(r"[A-Za-z_|()^$\-]*")
_SAFE = re.compile(r"[\w\-.*+?^$|()\\\[\]]*")
_PREFIX = re.compile(r"[^*?\[]*\*")
_BACK = re.compile(r"\\[1-9]")
_NESTED = re.compile(r"[)\]][*+?]|[*+?][*+]")


def _of_text_model(pattern: str) -> str:
    """The pattern as the text model alone would write it ("model.layers. ...")."""
    at = pattern.find(_LAYERS)
    if at >= 0 and pattern[:at] in _BEFORE_LAYERS:
        return "model." + pattern[at:]
    return pattern.removeprefix(_WRAPPER)


def _refused(field: str, what: str) -> Refused:
    return Refused(
        "UnsupportedQuantization",
        field,
        f"{field} holds {what}; write plain module names or wildcards",
    )


def _expression(text: str, field: str) -> str:
    """A regular expression, less what follows a match, if its running time is bounded.

    Raises:
        Refused: too long, a repeated group, too many repeats, or not an expression at all.
    """
    bare = text.removesuffix(".*")  # whatever follows, it has matched by then
    if (
        len(text) <= MOST_CHARACTERS
        and _SAFE.fullmatch(text)
        and not _NESTED.search(bare)
        and not _BACK.search(bare)
        and sum(bare.count(sign) for sign in "*+") <= MOST_REPEATS
    ):
        try:
            re.compile(bare)
        except re.error:
            pass
        else:
            return bare
    raise _refused(
        field, f"the regular expression {text[:60]!r}, whose running time has no bound here"
    )


def _floats(body: str) -> bool:
    """Whether the expression matches after anything, in all its alternatives."""
    return body.startswith(".*") and "|" not in re.sub(r"\([^()]*\)", "", body)


def _together(expressions: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{text})" for text in expressions) or r"(?!)")


def _alternatives(wildcards: Iterable[str]) -> re.Pattern[str]:
    """One expression for all the wildcards, each of which also covers what lies below it.

    A shell wildcard becomes atomic groups, which do not backtrack.
    """
    bodies = "|".join(re.sub(r"\\[Zz]$", "", translate(wildcard)) for wildcard in wildcards)
    return re.compile(rf"(?:{bodies})(?:\..*)?\Z" if bodies else r"(?!)")


def _any_layer(pattern: str) -> bool:
    """Whether a pattern without the number of a layer says the same of every layer."""
    for part in (".*", ".+", "\\.", "*", "."):
        pattern = pattern.replace(part, "")
    return _ANY_LAYER.fullmatch(pattern) is not None


class ModulePatterns:
    """A list of modules by pattern; asks whether a module is in it."""

    __slots__ = (
        "_anywhere", "_expressions", "_lasts", "_layers", "_names", "_prefixes", "_wildcards"
    )  # fmt: skip

    def __init__(self, patterns: Iterable[object], field: str) -> None:
        """Sort the patterns by how they are matched; prefixes by the layer that they name.

        Raises:
            Refused: an expression that cannot be run, or too many of a kind.
        """
        given = {pattern for pattern in patterns if type(pattern) is str}
        together = "\n".join(given)
        special = (
            {pattern for pattern in given if "*" in pattern or pattern.startswith("re:")}
            if "*" in together or "re:" in together  # told at once: most lists have none
            else set()
        )
        self._names = given - special
        prefixes: dict[str, list[str]] = {}
        wildcards: list[str] = []
        expressions: list[str] = []
        if len(special) > MOST_SPECIAL:
            raise _refused(field, f"more than {MOST_SPECIAL} wildcards and expressions")
        for pattern in sorted(special):
            bare = _of_text_model(pattern)
            layer = _LAYER.search(bare)
            if pattern.startswith("re:"):
                expressions.append(pattern.removeprefix("re:"))
            elif _PREFIX.fullmatch(bare):
                prefixes.setdefault(layer[1] if layer else "", []).append(bare[:-1])
            elif bare.count("*") > MOST_STARS:
                raise _refused(field, f"the wildcard {bare[:60]!r} of more than {MOST_STARS} stars")
            elif len(pattern) <= MOST_CHARACTERS:
                wildcards.append(bare)
        widest = max(map(len, prefixes.values()), default=0)
        for kind, number, most in (
            ("regular expressions", len(expressions), MOST_EXPRESSIONS),
            ("wildcards", len(wildcards), MOST_WILDCARDS),
            ("wildcards for one module", widest, MOST_PREFIXES),
        ):
            if number > most:
                raise _refused(field, f"more than {most} {kind}")
        bodies = [_expression(text, field) for text in expressions]
        self._anywhere = _together([body for body in bodies if _floats(body)])
        self._expressions = _together([body for body in bodies if not _floats(body)])
        self._wildcards = _alternatives(wildcards)
        self._prefixes = {layer: tuple(found) for layer, found in prefixes.items()}
        self._lasts = {name.rpartition(".")[2] for name in self._names}
        self._layers = self._named_layers([*expressions, *wildcards, *prefixes.get("", ())])

    def _named_layers(self, layerless: Iterable[str]) -> frozenset[int] | None:
        """The layers that a pattern tells from others; None: it may be any."""
        if not all(map(_any_layer, layerless)):
            return None
        behind = {text[:MOST_DIGITS] for text in "\n".join(self._names).split(_LAYERS)[1:]}
        numbers = {text.partition("\n")[0].partition(".")[0] for text in behind}
        numbers.update(self._prefixes)
        return frozenset(int(number) for number in numbers if number.isdecimal())

    def names_layer(self, index: int) -> bool:
        """Whether a pattern may tell that layer from another one."""
        return self._layers is None or index in self._layers

    def spells(self, module: str) -> bool:
        """Whether the list has that very name, not a pattern or a part of it."""
        return module in self._names

    def __contains__(self, module: str) -> bool:
        """Whether the module, or something that holds it, is in the list."""
        parts = module.split(".")
        runs = [
            ".".join(parts[first:last])
            for last in range(1, len(parts) + 1)
            if parts[last - 1] in self._lasts
            for first in range(last)
            # A number alone names no module.
            if last - first > 1 or not parts[first].isdigit()
        ]
        runs += [
            before + run for run in runs if run.startswith(_LAYERS) for before in _BEFORE_LAYERS
        ]
        runs += [_WRAPPER + run for run in runs if run == module]
        if not self._names.isdisjoint(runs) or self._wildcards.match(module):
            return True
        layer = _LAYER.search(module)
        own = self._prefixes.get(layer[1], ()) if layer else ()
        if module.startswith((*own, *self._prefixes.get("", ()))):
            return True
        # What matches after anything matches behind the prefix of a multimodal checkpoint too.
        return (
            self._anywhere.match(f"{_WRAPPER}{module}") is not None
            or self._expressions.match(module) is not None
            or self._expressions.match(f"{_WRAPPER}{module}") is not None
        )
