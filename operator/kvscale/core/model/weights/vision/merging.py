"""Vision towers that merge neighbouring patches into one token: Qwen-VL's, GLM-4V's and MoonViT.

Each follows the module of vllm v0.32.0 model_executor/models that its docstring names.
"""

from kvscale.core.model.fields import Fields
from kvscale.core.model.weights.vision.parts import (
    MOST_LAYERS,
    MOST_MERGE,
    MOST_PATCH,
    MOST_POSITIONS,
    MOST_WIDTH,
    ROTARY_POSITIONS,
    Tower,
    blocks,
    depth_of,
    merge_of,
    patch_of,
    width_of,
)


def qwen2(vision: Fields, _top: Fields, text: int) -> Tower:
    """qwen2_vl.py."""
    width = width_of(vision, "embed_dim", 1280)
    depth, out = depth_of(vision, "depth", 32), width_of(vision, "hidden_size", text)
    ratio = vision.number("mlp_ratio", 1, MOST_MERGE, 4)
    block = blocks(width, int(width * ratio))
    merged = merge_of(vision) * width
    patch = patch_of(vision, "in_chans", 14) * vision.integer(
        "temporal_patch_size", 1, MOST_MERGE, default=2
    )
    heads = vision.integer("num_heads", 1, MOST_WIDTH, default=16)
    return Tower(
        depth * block.split + merged * (merged + 1) + merged * out,
        depth * block.whole + patch * width + 2 * width + out,
        ROTARY_POSITIONS * (width // heads // 2),
    )


def qwen2_5(vision: Fields, _top: Fields, text: int) -> Tower:
    """qwen2_5_vl.py."""
    width = width_of(vision, "hidden_size", 1280)
    depth, out = depth_of(vision, "depth", 32), width_of(vision, "out_hidden_size", text)
    block = blocks(width, width_of(vision, "intermediate_size", 3420), gated=True, norm_bias=False)
    merged = merge_of(vision) * width
    patch = patch_of(vision, "in_chans", 14) * vision.integer(
        "temporal_patch_size", 1, MOST_MERGE, default=2
    )
    heads = vision.integer("num_heads", 1, MOST_WIDTH, default=16)
    return Tower(
        depth * block.split + merged * (merged + 1) + merged * out,
        depth * block.whole + patch * width + width + out,
        ROTARY_POSITIONS * (width // heads // 2),
    )


def qwen3(vision: Fields, _top: Fields, text: int) -> Tower:
    """qwen3_vl.py."""
    width = width_of(vision, "hidden_size", 1152)
    depth, out = depth_of(vision, "depth", 27), width_of(vision, "out_hidden_size", text)
    block = blocks(width, width_of(vision, "intermediate_size", 4304))
    merged = merge_of(vision) * width
    patch = patch_of(vision, default=16) * vision.integer(
        "temporal_patch_size", 1, MOST_MERGE, default=2
    )
    positions = vision.integer("num_position_embeddings", 1, MOST_POSITIONS, default=2304)
    deep = len(vision.items("deepstack_visual_indexes", MOST_LAYERS))
    heads = vision.integer("num_heads", 1, MOST_WIDTH, default=16)
    merger = merged * (merged + 1) + merged * out
    return Tower(
        depth * block.split + (1 + deep) * merger,
        depth * block.whole + (patch + 1) * width + positions * width
        + (1 + deep) * out + 2 * width + deep * 2 * merged,
        ROTARY_POSITIONS * (width // heads // 2),
    )  # fmt: skip


def moon_vit(vision: Fields, _top: Fields, text: int) -> Tower:
    """kimi_k25_vit.py."""
    width = width_of(vision, "vt_hidden_size")
    depth, out = (
        depth_of(vision, "vt_num_hidden_layers"),
        width_of(vision, "text_hidden_size", text),
    )
    block = blocks(width, width_of(vision, "vt_intermediate_size"))
    positions = vision.integer("init_pos_emb_height", 1, 4096) * vision.integer(
        "init_pos_emb_width", 1, 4096
    )
    merged = width
    for side in vision.items("merge_kernel_size", 2) or [2, 2]:
        merged *= Fields({"merge_kernel_size": side}, vision.path).integer(
            "merge_kernel_size", 1, MOST_MERGE
        )
    return Tower(
        depth * block.split,
        depth * block.whole + (patch_of(vision) + 1) * width + positions * width
        + 4 * width + merged * (merged + 1) + (merged + 1) * out,
    )  # fmt: skip


def moon_vit_vl(vision: Fields, top: Fields, text: int) -> Tower:
    """moonvit.py and the projector of kimi_vl.py."""
    renamed = {
        "vt_hidden_size": "hidden_size",
        "vt_num_hidden_layers": "num_hidden_layers",
        "vt_intermediate_size": "intermediate_size",
    }
    own = {key: vision.data.get(name) for key, name in renamed.items()}
    return moon_vit(Fields({**vision.data, **own}, vision.path), top, text)


def glm4(vision: Fields, _top: Fields, text: int) -> Tower:
    """glm4_1v.py."""
    width, depth = width_of(vision, "hidden_size", 1536), depth_of(vision, "depth", 24)
    out = width_of(vision, "out_hidden_size", text)
    block = blocks(width, out, bias=False, gated=True, norm_bias=False)
    side = vision.integer("image_size", 1, MOST_POSITIONS, default=336)
    patches = (side // vision.integer("patch_size", 1, MOST_PATCH, default=14)) ** 2
    frames = vision.integer("temporal_patch_size", 1, MOST_MERGE, default=2)
    heads = vision.integer("num_heads", 1, MOST_WIDTH, default=12)
    inner = width_of(vision, "intermediate_size", 13696)
    return Tower(
        depth * block.split + out * out + 3 * out * inner,
        depth * block.whole + (patch_of(vision, default=14) * frames + 1) * width
        + patches * width + 2 * width + (merge_of(vision) * width + 1) * out + 2 * out,
        ROTARY_POSITIONS * (width // heads // 2),
    )  # fmt: skip
