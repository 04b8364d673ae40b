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

_FIRST = {
    Vision.QWEN2: "visual.blocks.0.attn.proj",
    Vision.QWEN2_5: "visual.blocks.0.attn.proj",
    Vision.QWEN3: "visual.blocks.0.attn.proj",
    Vision.GLM_4: "visual.blocks.0.attn.proj",
    Vision.PIXTRAL: "vision_tower.transformer.layers.0.attention.q_proj",
}
"""A matrix of the first block, where the tower is built with the checkpoint's quantisation."""

_PER_TENSOR = 8_000
"""Thousandths of a bit in fp8 with a scale per tensor; with blocks no tower has fitting widths."""


def _matrix_bits(kind: Vision, quantization: Quantization, dtype: str) -> int:
    """Thousandths of a bit per parameter of the tower's matrices.

    Checkpoints leave the tower as it is, and say so. Of those in fp8 the engine takes only full
    names of matrices for that: Mistral's "model.vision_tower" names none, so that its tower is
    stored in fp8 too (vllm v0.32.0 model_executor/layers/quantization/fp8.py,
    `ignored_layers_match_mode`).
    """
    first = _FIRST.get(kind)
    if first is None or quantization.method != "fp8":
        return BITS[dtype]
    ignored = quantization.ignored
    spelled = ignored is not None and (ignored.spells(first) or ignored.spells(f"model.{first}"))
    per_tensor = quantization.schemes[0].bits_milli == _PER_TENSOR
    return _PER_TENSOR if per_tensor and not spelled else BITS[dtype]


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
