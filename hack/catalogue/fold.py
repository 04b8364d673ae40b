"""Shortening what a quantised checkpoint lists module by module, with the same shape as a result.

A list such as "model.layers.0.mlp.gate", "model.layers.1.mlp.gate", ... becomes one wildcard, which
the reader of such lists knows. Every step is kept only if the shape is the same as before it.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

LONG = 1000
"""Characters from which a part is worth shortening."""
ALIKE = 4
"""Names from which a wildcard is worth its while."""

Same = Callable[[Any], bool]
Path = tuple[Any, ...]

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_LATER_EXPERT = re.compile(r"\.experts\.[1-9]")


def folded(config: dict[str, Any], same: Same) -> dict[str, Any]:
    """The config with its long lists of modules shortened.

    Args:
        config: a config.json; left as it is.
        same: whether a shortened config still says the same.
    """
    config = copy.deepcopy(config)
    for path in list(_long_parts(config, ())):
        for step in (_without, _without_later_experts, _by_wildcards):
            config = step(config, path, same)
    return config


def _long_parts(value: Any, path: Path) -> Iterator[Path]:
    """Long lists and objects below the top, the outermost first."""
    if not isinstance(value, dict | list) or len(json.dumps(value)) < LONG:
        return
    if len(path) > 1:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield from _long_parts(part, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(value, dict | list) or (isinstance(value, dict) and key not in value):
            return None
        value = value[key]
    return value


def _with(config: dict[str, Any], path: Path, part: Any) -> dict[str, Any]:
    """A copy of the config with another value there; None takes the key away."""
    config = copy.deepcopy(config)
    holder = _at(config, path[:-1])
    if part is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = part
    return config


def _without(config: dict[str, Any], path: Path, same: Same) -> dict[str, Any]:
    if not isinstance(path[-1], str) or _at(config, path) is None:
        return config  # an item of a list, or gone with what held it
    shorter = _with(config, path, None)
    return shorter if same(shorter) else config


def _without_later_experts(config: dict[str, Any], path: Path, same: Same) -> dict[str, Any]:
    part = _at(config, path)
    if not _names_modules(part):
        return config
    shorter = _with(config, path, _picked(part, [n for n in part if not _LATER_EXPERT.search(n)]))
    return shorter if same(shorter) else config


def _by_wildcards(config: dict[str, Any], path: Path, same: Same) -> dict[str, Any]:
    part = _at(config, path)
    if not _names_modules(part):
        return config
    for wildcard, members in _alike(part).items():
        part = _at(config, path)
        shorter = _with(config, path, _replaced(part, wildcard, members))
        if same(shorter):
            config = shorter
    return config


def _alike(part: Any) -> dict[str, list[str]]:
    """Names that differ in their numbers alone, by the wildcard for them all."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in part:
        value = json.dumps(part[name], sort_keys=True) if isinstance(part, dict) else ""
        groups.setdefault((_NUMBER.sub("*", name), value), []).append(name)
    wildcards = [wildcard for wildcard, _ in groups]
    return {
        wildcard: members
        for (wildcard, _), members in groups.items()
        if len(members) >= ALIKE and wildcards.count(wildcard) == 1
    }


def _names_modules(part: Any) -> bool:
    """Whether it is a list, or an object, of names of modules."""
    return isinstance(part, dict | list) and all(isinstance(name, str) for name in part)


def _picked(part: Any, names: list[str]) -> Any:
    return {name: part[name] for name in names} if isinstance(part, dict) else names


def _replaced(part: Any, wildcard: str, members: list[str]) -> Any:
    """The part with the wildcard in the place of the first of its members."""
    gone = set(members)
    named = [wildcard if name == members[0] else name for name in part]
    left = [name for name in named if name not in gone]
    if isinstance(part, dict):
        return {name: part[members[0] if name == wildcard else name] for name in left}
    return left
