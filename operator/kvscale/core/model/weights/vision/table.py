"""Vision towers: weights beside the text model, without a KV cache."""

from kvscale.core.model.architectures.row import Vision
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import WeightGroup
from kvscale.core.model.weights.vision.parts import MOST_WIDTH
from kvscale.core.model.weights.vision.towers import TOWERS


def _group(name: str, elements: int, dtype: str, *, split: bool, buffer: bool) -> WeightGroup:
    return WeightGroup(
        name, elements, BITS[dtype],
        split_by_tensor_parallel=split, touched_share_milli=0, stage="first", buffer=buffer,
    )  # fmt: skip


def vision_groups(kind: Vision, config: Fields, dtype: str) -> tuple[WeightGroup, ...]:
    """Weights of the vision tower; none for a text model.

    Args:
        kind: which tower the architecture has.
        config: the whole config.json.
        dtype: format of its weights; the known checkpoints leave the tower unquantised.

    Raises:
        Refused: `vision_config` is missing or not understood.
    """
    if kind is Vision.NONE:
        return ()
    rule, stated = TOWERS[kind]
    vision = config.child("vision_config")
    if vision is None:
        if stated:
            raise Refused(
                "InvalidConfig",
                "vision_config",
                f"vision_config is missing; a model with a {kind} tower has one",
            )
        vision = Fields({}, "vision_config.")
    text = config.child("text_config") or config
    hidden = text.integer("hidden_size", 1, MOST_WIDTH, default=MOST_WIDTH)
    tower = rule(vision, config, hidden)
    groups = (
        _group("vision", tower.split, dtype, split=True, buffer=False),
        _group("visionWhole", tower.whole, dtype, split=False, buffer=False),
        _group("visionRotaryTable", tower.table, dtype, split=False, buffer=True),
    )
    return tuple(group for group in groups if group.parameters)
