"""Which keys of a config.json are kept: those whose names stand in the code that reads them."""

import ast
from pathlib import Path
from typing import Any

LONGEST_KEY = 60
GENERATED = ("catalogue.py", "class_defaults.py")

FREE = frozenset({"config_groups", "dynamic", "extra_config", "quantized_layers"})
"""Objects whose keys are names of modules, groups or expressions: kept as they are."""


def names_in(folder: Path) -> frozenset[str]:
    """Short string constants of the modules below a folder: the keys they read, and more."""
    names: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        if path.name in GENERATED:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return frozenset(name for name in names if 0 < len(name) <= LONGEST_KEY)


def kept(value: Any, names: frozenset[str]) -> Any:
    """The value with only the keys that a reader may ask for; null is kept: it is not "left out".

    Args:
        value: a config.json, or a part of one.
        names: of `names_in`.
    """
    if isinstance(value, dict):
        return {
            key: part if key in FREE else kept(part, names)
            for key, part in value.items()
            if key in names
        }
    if isinstance(value, list):
        return [kept(part, names) for part in value]
    return value
