"""Layers of a searched architecture, each a block of its own: DeciLM and Llama-Nemotron.

Source: vllm v0.32.0 model_executor/models/nemotron_nas.py.
"""

from collections.abc import Iterator

from kvscale.core.model.bounds import MOST_LAYERS
from kvscale.core.model.fields import Fields, Refused


def searched_blocks(config: Fields, key: str, layers: int) -> Iterator[Fields]:
    """One part ("attention", "ffn") of each layer's block.

    Args:
        config: of the text model.
        key: of the part.
        layers: how many the model has.

    Raises:
        Refused: a layer without a block, or a block without that part.
    """
    path = f"{config.path}block_configs"
    listed = dict(enumerate(config.items("block_configs", MOST_LAYERS)))
    for index in range(layers):
        block = Fields({str(index): listed.get(index)}, f"{path}.").child(str(index))
        part = block.child(key) if block is not None else None
        if part is None:
            field = f"{path}[{index}].{key}"
            raise Refused("InvalidConfig", field, f"{field} is missing; it must be an object")
        yield part


def _attends(attention: Fields) -> bool:
    return not (attention.flag("no_op") or attention.flag("replace_with_linear"))


def searched_attends(config: Fields, layers: int) -> tuple[bool, ...]:
    """Which layers have attention.

    Args:
        config: of the text model.
        layers: how many the model has.

    Raises:
        Refused: a block is missing or absurd.
    """
    return tuple(_attends(one) for one in searched_blocks(config, "attention", layers))


def searched_kv_heads(config: Fields, layers: int, heads: int) -> tuple[int, ...]:
    """KV heads of each layer; 0 for a layer without attention.

    Args:
        config: of the text model.
        layers: how many the model has.
        heads: query heads of every layer.

    Raises:
        Refused: a block is missing or absurd.
    """
    return tuple(
        heads // one.integer("n_heads_in_group", 1, heads) if _attends(one) else 0
        for one in searched_blocks(config, "attention", layers)
    )
