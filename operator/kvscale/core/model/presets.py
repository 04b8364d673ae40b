"""Models that people serve, by name: the numbers of their public config.json.

Each is read by the same `read_shape` as a config.json of one's own. Names are Hugging Face's; a
model's -Instruct, -Chat or -Base sibling with the same shape is an alias. A quantised sibling
("...-FP8") is none: its weights have another size, and it is listed only where its own config is.
The configs stand in `catalogue`, which is generated; a text is decoded when its model is asked for.
"""

import json
from difflib import get_close_matches
from functools import lru_cache

from kvscale.core.model.catalogue import ALIASES, CONFIGS, ORIGIN_OF, ORIGINS
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

MOST_CHARACTERS = 200
PROPOSALS = 3

_BY_NAME = {name.lower(): (name, model) for name, model in ALIASES.items()} | {
    model.lower(): (model, model) for model in CONFIGS
}

PRESET_NAMES: tuple[str, ...] = tuple(
    sorted((name for name, _ in _BY_NAME.values()), key=str.lower)
)
"""Every name that `preset` knows, aliases included."""


@lru_cache(maxsize=256)
def preset(name: str) -> ModelShape | Refusal:
    """The shape of a model of the catalogue.

    Args:
        name: its Hugging Face name, in any case.

    Returns:
        The shape, or a Refusal that proposes the names closest to it.
    """
    found = _find(name)
    if found is not None:
        own, model = found
        kept = json.loads(CONFIGS[model])
        return read_shape(kept["config"], own, kept.get("quantization"))
    close = get_close_matches(
        name[:MOST_CHARACTERS].strip().lower(), list(_BY_NAME), n=PROPOSALS, cutoff=0.5
    )
    proposed = ", ".join(_BY_NAME[match][0] for match in close)
    hint = f"did you mean {proposed}? Otherwise g" if proposed else "g"
    return Refusal(
        "UnknownPreset",
        "model.preset",
        f"no preset is called {name[:60]!r}; {hint}ive the model's config.json in "
        "model.configMapRef, or its numbers in model.shape",
    )


def preset_source(name: str) -> str:
    """Where the numbers of a preset are from; "" for a name that is none."""
    found = _find(name)
    return ORIGINS[ORIGIN_OF[found[1]]] if found is not None else ""


def _find(name: str) -> tuple[str, str] | None:
    """A name as the catalogue spells it, and the model whose config it has."""
    return _BY_NAME.get(name.strip().lower()) if len(name) <= MOST_CHARACTERS else None
