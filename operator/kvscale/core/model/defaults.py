"""What a config.json leaves out because its class fills it in.

Hugging Face's config classes have a default for every key, and the engine reads the class, not the
file: a Mixtral that does not state `num_local_experts` has 8. A key that is null is stated: the
class's default does not replace it (`sliding_window: null` is no window).
"""

import json
from functools import lru_cache
from typing import Any

from kvscale.core.model.class_defaults import DEFAULTS
from kvscale.core.model.fields import Fields


def with_class_defaults(config: Fields, part: str) -> Fields:
    """A part of a config as its class would hold it.

    Args:
        config: the whole config.json.
        part: "text_config" or "vision_config"; a config without that part is all text.

    Returns:
        The keys that are stated, those that the class knows by another name under both names, and
        the class's defaults for the others; unchanged for a type whose class is not known.

    Raises:
        Refused: the part is no object, or `model_type` is no text.
    """
    nested = config.child(part)
    stated = config if nested is None else nested
    model_type = stated.text("model_type")
    if not model_type and nested is not None:
        # A part that does not state its type has the one that the whole's class gives it.
        model_type = _told(config.text("model_type")).get("parts", {}).get(part, "")
    told = _told(model_type)
    if not told:
        return stated
    data: dict[str, Any] = {**stated.data}
    _under_both_names(data, told)
    for key, value in told["defaults"].items():
        data.setdefault(key, value)
    _under_both_names(data, told)
    return Fields(data, stated.path)


def _under_both_names(data: dict[str, Any], told: dict[str, Any]) -> None:
    for pair in told.get("aliases", {}).items():
        for one, other in (pair, pair[::-1]):
            if one in data:
                data.setdefault(other, data[one])


@lru_cache(maxsize=256)
def _told(model_type: str) -> dict[str, Any]:
    text = DEFAULTS.get(model_type)
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
