"""Vision towers: weights beside the text model, without a KV cache.

Every pipeline stage builds the tower and its projector, though only the first one runs them: no
multimodal class of vllm v0.32.0 asks for its stage there (`_mark_tower_model`,
model_executor/models/interfaces.py, leaves a tower out only where `--limit-mm-per-prompt` is 0).
"""

from kvscale.core.model.architectures.row import Vision
from kvscale.core.model.checkpoint.storage import NONE, Quantization
from kvscale.core.model.defaults import with_class_defaults
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import WeightGroup
from kvscale.core.model.weights.vision.parts import MOST_WIDTH
from kvscale.core.model.weights.vision.towers import TOWERS

_PIXTRAL = "vision_tower.transformer.layers.0.attention.q_proj"


def _matrix_bits(kind: Vision, quantization: Quantization, dtype: str) -> int:
    """Thousandths of a bit per parameter of the tower's matrices.

    The known checkpoints leave the tower as it is, and say so. Mistral's in fp8 say so of
    "model.vision_tower"; the engine renames only what begins with "model.vision_tower.", takes
    that entry for one of the text model and so stores the tower in fp8 too (vllm v0.32.0
    model_executor/models/mistral3.py, `hf_to_vllm_mapper`).
    """
    if kind is not Vision.PIXTRAL or quantization.method != "fp8":
        return BITS[dtype]
    ignored = quantization.ignored
    renamed = (
        ignored is not None
        and f"model.{_PIXTRAL}" in ignored
        and "model.vision_tower" not in ignored
    )
    return BITS[dtype] if renamed else quantization.bits(_PIXTRAL, dtype)


def _group(name: str, elements: int, bits: int, *, split: bool, buffer: bool) -> WeightGroup:
    return WeightGroup(
        name, elements, bits,
        split_by_tensor_parallel=split, touched_share_milli=0, stage="each", buffer=buffer,
    )  # fmt: skip


def vision_groups(
    kind: Vision, config: Fields, dtype: str, quantization: Quantization = NONE
) -> tuple[WeightGroup, ...]:
    """Weights of the vision tower; none for a text model.

    Args:
        kind: which tower the architecture has.
        config: the whole config.json.
        dtype: format of what is not quantised.
        quantization: how the checkpoint is stored.

    Raises:
        Refused: `vision_config` is missing or not understood.
    """
    if kind is Vision.NONE:
        return ()
    rule, stated = TOWERS[kind]
    vision = config.child("vision_config")
    if vision is not None:
        vision = with_class_defaults(config, "vision_config")
    else:
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
    matrices = _matrix_bits(kind, quantization, dtype)
    groups = (
        _group("vision", tower.split, matrices, split=True, buffer=False),
        _group("visionWhole", tower.whole, BITS[dtype], split=False, buffer=False),
        _group("visionRotaryTable", tower.table, BITS[dtype], split=False, buffer=True),
    )
    return tuple(group for group in groups if group.parameters)
