"""Reading a mixture of experts from a config."""

from kvscale.core.model.architectures.row import MixtureKeys
from kvscale.core.model.bounds import MOST_LAYERS, MOST_WIDTH
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.lists import layer_names
from kvscale.core.model.weights.sizes import Experts

MOST_EXPERTS = 1 << 14


def read_experts(text: Fields, keys: MixtureKeys, layers: int) -> Experts | None:
    """The mixture's dimensions; None where the config states no experts.

    Args:
        text: the text model's config.
        keys: of the architecture's mixture.
        layers: layers of the model.

    Raises:
        Refused: a key is missing, of the wrong type, or absurd.
    """
    text = _uniform(text, keys)
    if keys.experts not in text.data:
        raise Refused(
            "InvalidConfig",
            text.path + keys.experts,
            f"{text.path}{keys.experts} is missing, and no default of it is known; state how many "
            "routed experts a layer has, or 0 for a dense model",
        )
    count = text.integer(keys.experts, 0, MOST_EXPERTS, default=0)
    if count < keys.least:
        return None
    width = text.integer(keys.width, 1, MOST_WIDTH)
    shared = width * text.integer(keys.shared, 0, 1_000, default=0) if keys.shared else 0
    if keys.shared_width:
        shared = text.integer(keys.shared_width, 0, MOST_WIDTH, default=0)
    return Experts(
        count=count,
        per_token=text.integer(keys.chosen, 1, count, default=1),
        width=width,
        shared_width=shared,
        layers=_mixed_layers(text, keys, layers),
    )


def _uniform(text: Fields, keys: MixtureKeys) -> Fields:
    """The config with one number where a mixture's key lists the same one for every layer."""
    single = {
        key: found[0]
        for key in (keys.experts, keys.width, keys.chosen, keys.shared)
        if isinstance(found := text.data.get(key), list)
        and len(found) <= MOST_LAYERS
        and found
        and all(entry == found[0] for entry in found)
    }
    return Fields({**text.data, **single}, text.path) if single else text


def _mixed_layers(text: Fields, keys: MixtureKeys, layers: int) -> tuple[int, ...]:
    """The layers that have the mixture."""
    if keys.layer_names and text.has(keys.layer_names):
        names = layer_names(text, keys.layer_names, layers)
        return tuple(index for index, name in enumerate(names) if name == "sparse")
    if keys.indices and text.has(keys.indices):
        listed = {word.strip() for word in text.text(keys.indices).split(",")[:MOST_LAYERS]}
        return tuple(index for index in range(layers) if str(index) in listed)
    first = text.integer(keys.dense_first, 0, MOST_LAYERS, default=0) if keys.dense_first else 0
    step = 1
    if keys.step and not isinstance(text.data.get(keys.step), list):
        step = text.integer(keys.step, 0, MOST_LAYERS, default=1)
    dense = text.items(keys.dense_list, MOST_LAYERS) if keys.dense_list else []
    offset = keys.offset
    if keys.offset_key:
        offset = -text.integer(keys.offset_key, 0, MOST_LAYERS, default=1)
    return tuple(
        index
        for index in range(first, layers)
        if step and (index + offset) % step == 0 and index not in dense
    )
