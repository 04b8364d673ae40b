"""Vision towers: weights beside the text model, without a KV cache.

Counts follow vllm v0.32.0 model_executor/models/{qwen3_vl,kimi_k25_vit}.py, compared with what it
allocates. The linear layers of a Qwen3-VL tower are split over tensor parallelism; patch and
position embeddings and norms are not.
"""

from kvscale.core.model.architectures import Vision
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import WeightGroup

ROTARY_POSITIONS = 8192
"""Positions of the tower's rotary table (vllm v0.32.0 qwen3_vl.py, `max_position=8192`)."""

MOST_LAYERS = 1_000
MOST_WIDTH = 1 << 17
MOST_POSITIONS = 1 << 22


def _group(
    name: str, parameters: int, dtype: str, *, split: bool, buffer: bool = False
) -> WeightGroup:
    return WeightGroup(
        name, parameters, BITS[dtype],
        split_by_tensor_parallel=split, touched_share_milli=0, stage="first", buffer=buffer,
    )  # fmt: skip


def _qwen3(vision: Fields, dtype: str) -> tuple[WeightGroup, ...]:
    depth = vision.integer("depth", 1, MOST_LAYERS)
    width = vision.integer("hidden_size", 1, MOST_WIDTH)
    inner = vision.integer("intermediate_size", 1, MOST_WIDTH)
    heads = vision.integer("num_heads", 1, MOST_WIDTH)
    out = vision.integer("out_hidden_size", 1, MOST_WIDTH)
    merge = vision.integer("spatial_merge_size", 1, 64) ** 2 * width
    patch = (
        vision.integer("in_channels", 1, 64, default=3)
        * vision.integer("temporal_patch_size", 1, 64)
        * vision.integer("patch_size", 1, 1024) ** 2
    )
    positions = vision.integer("num_position_embeddings", 1, MOST_POSITIONS)
    deep = len(vision.items("deepstack_visual_indexes", MOST_LAYERS))
    # Column-parallel matrices split their bias too, row-parallel ones repeat it.
    block_split = 3 * width * (width + 1) + width * width + inner * (width + 1) + inner * width
    block_whole = width + width + 4 * width
    merger_split = merge * (merge + 1) + merge * out
    return (
        _group("vision", depth * block_split + (1 + deep) * merger_split, dtype, split=True),
        _group(
            "visionWhole",
            depth * block_whole
            + (patch + 1) * width
            + positions * width
            + (1 + deep) * out
            + 2 * width
            + deep * 2 * merge,
            dtype,
            split=False,
        ),
        _group(
            "visionRotaryTable",
            ROTARY_POSITIONS * (width // heads // 2),
            dtype,
            split=False,
            buffer=True,
        ),
    )


def _moon_vit(vision: Fields, dtype: str) -> tuple[WeightGroup, ...]:
    depth = vision.integer("vt_num_hidden_layers", 1, MOST_LAYERS)
    width = vision.integer("vt_hidden_size", 1, MOST_WIDTH)
    inner = vision.integer("vt_intermediate_size", 1, MOST_WIDTH)
    out = vision.integer("text_hidden_size", 1, MOST_WIDTH)
    patch = 3 * vision.integer("patch_size", 1, 1024) ** 2
    positions = vision.integer("init_pos_emb_height", 1, 4096) * vision.integer(
        "init_pos_emb_width", 1, 4096
    )
    merge = width
    for side in vision.items("merge_kernel_size", 2) or [2, 2]:
        merge *= Fields({"merge_kernel_size": side}, vision.path).integer(
            "merge_kernel_size", 1, 64
        )
    block_split = 3 * width * (width + 1) + width * width + inner * (width + 1) + inner * width
    block_whole = width + width + 4 * width
    whole = (
        depth * block_whole
        + (patch + 1) * width
        + positions * width
        + 2 * width  # final norm
        + 2 * width  # the projector's norm
        + merge * (merge + 1)
        + (merge + 1) * out
    )
    return (
        _group("vision", depth * block_split, dtype, split=True),
        _group("visionWhole", whole, dtype, split=False),
    )


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
    vision = config.child("vision_config")
    if vision is None:
        raise Refused(
            "InvalidConfig",
            "vision_config",
            f"vision_config is missing; a model with a {kind} tower has one",
        )
    return _qwen3(vision, dtype) if kind is Vision.QWEN3 else _moon_vit(vision, dtype)
