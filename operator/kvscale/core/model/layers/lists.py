"""Lists of a config that have one entry per layer."""

from kvscale.core.model.bounds import MOST_LAYERS
from kvscale.core.model.fields import Fields, Refused, shown


def too_short(field: str, items: int, layers: int) -> Refused:
    """The refusal of a list that ends before the layers do."""
    return Refused(
        "InvalidConfig", field, f"{field} has {items} items for {layers} layers; give one for each"
    )


def _of_length(text: Fields, key: str, layers: int) -> list[object]:
    found = text.items(key, 4 * MOST_LAYERS)
    if len(found) < layers:
        raise too_short(text.path + key, len(found), layers)
    return found[:layers]


def layer_names(text: Fields, key: str, layers: int) -> tuple[str, ...]:
    """A list of strings, one per layer.

    Args:
        text: the text model's config.
        key: of the list.
        layers: how many the model has; further entries (of draft layers) are left out.

    Raises:
        Refused: missing, too short, or an entry that is no string.
    """
    found = _of_length(text, key, layers)
    for position, name in enumerate(found):
        if not isinstance(name, str):
            raise Refused(
                "InvalidConfig",
                text.path + key,
                f"{text.path}{key}[{position}] is {shown(name)}; it must be a string",
            )
    return tuple(str(name) for name in found)


def layer_integers(text: Fields, key: str, layers: int, low: int, high: int) -> tuple[int, ...]:
    """A list of integers in [low, high], one per layer; a single integer counts for all.

    Args:
        text: the text model's config.
        key: of the list.
        layers: how many the model has; further entries (of draft layers) are left out.
        low: least value.
        high: largest value.

    Raises:
        Refused: missing, too short, or an entry that is no such integer.
    """
    if not isinstance(text.data.get(key), list):
        return (text.integer(key, low, high),) * layers
    entries = Fields(
        {f"{key}[{i}]": value for i, value in enumerate(_of_length(text, key, layers))}, text.path
    )
    return tuple(entries.integer(f"{key}[{i}]", low, high) for i in range(layers))
