"""Vision towers in numbers: what tensor parallelism splits and what every rank holds.

Each follows the module of vllm v0.32.0 model_executor/models that its docstring names.
"""

from collections.abc import Callable

from kvscale.core.model.architectures.row import Vision
from kvscale.core.model.fields import Fields
from kvscale.core.model.weights.vision.merging import (
    glm4,
    moon_vit,
    moon_vit_vl,
    qwen2,
    qwen2_5,
    qwen3,
)
from kvscale.core.model.weights.vision.parts import (
    MOST_MERGE,
    MOST_PATCH,
    MOST_POSITIONS,
    MOST_WIDTH,
    Tower,
    blocks,
    depth_of,
    merge_of,
    patch_of,
    width_of,
)


def _llama4(vision: Fields, _top: Fields, text: int) -> Tower:
    """mllama4.py; what the config leaves out is transformers' Llama4VisionConfig."""
    width, depth = width_of(vision, "hidden_size", 768), depth_of(vision, "num_hidden_layers", 34)
    inner = width_of(vision, "intermediate_size", 5632)
    block = blocks(width, inner)
    side = vision.integer("image_size", 1, MOST_POSITIONS, default=448)
    patches = (side // vision.integer("patch_size", 1, MOST_PATCH, default=14)) ** 2
    projector = width_of(vision, "projector_input_dim", 4096)
    adapted = width_of(vision, "projector_output_dim", 4096)
    heads = vision.integer("num_attention_heads", 1, MOST_WIDTH, default=16)
    return Tower(
        depth * block.split + patch_of(vision, "num_channels", 14) * width
        + inner * projector + projector * adapted
        + width_of(vision, "vision_output_dim", 7680) * text,
        depth * block.whole + (patches + 2) * width + 4 * width,
        # Complex numbers of two fp32 halves, for every patch and the class token.
        (patches + 1) * (width // heads // 2) * 4,
    )  # fmt: skip


def _siglip(vision: Fields, _top: Fields, text: int) -> Tower:
    """siglip.py and the projector of gemma3_mm.py."""
    width, depth = width_of(vision, "hidden_size", 1152), depth_of(vision, "num_hidden_layers", 27)
    block = blocks(width, width_of(vision, "intermediate_size", 4304))
    side = vision.integer("image_size", 1, MOST_POSITIONS, default=896)
    patches = (side // vision.integer("patch_size", 1, MOST_PATCH, default=14)) ** 2
    return Tower(
        depth * block.split,
        depth * block.whole + (patch_of(vision, "num_channels", 14) + 1) * width
        + patches * width + 2 * width + width * text + width,
    )  # fmt: skip


def _gemma4(vision: Fields, _top: Fields, text: int) -> Tower:
    """gemma4_mm.py: transformers' own modules, whole on every rank."""
    width, depth = width_of(vision, "hidden_size", 768), depth_of(vision, "num_hidden_layers", 16)
    heads = vision.integer("num_attention_heads", 1, MOST_WIDTH, default=12)
    kv_heads = vision.integer("num_key_value_heads", 1, MOST_WIDTH, default=heads)
    head = width_of(vision, "head_dim", 64)
    inner = width_of(vision, "intermediate_size", 3072)
    block = 2 * width * head * (heads + kv_heads) + 3 * width * inner + 2 * head + 4 * width
    positions = vision.integer("position_embedding_size", 1, MOST_POSITIONS, default=10240)
    return Tower(
        0,
        depth * block + patch_of(vision, "num_channels", 16) * width + 2 * positions * width
        + (2 * width if vision.flag("standardize") else 0) + width * text,
    )  # fmt: skip


def _pixtral(vision: Fields, top: Fields, text: int) -> Tower:
    """pixtral.py and the projector of mistral3.py."""
    width, depth = width_of(vision, "hidden_size", 1024), depth_of(vision, "num_hidden_layers", 24)
    block = blocks(
        width, width_of(vision, "intermediate_size", 4096), bias=False, gated=True, norm_bias=False
    )
    bias = top.flag("multimodal_projector_bias")
    merged = merge_of(top) * width
    return Tower(
        depth * block.split + text * (width + bias) + text * text,
        depth * block.whole + patch_of(vision, "num_channels", 16) * width + 2 * width
        + merged * width + (text if bias else 0),
    )  # fmt: skip


def _minimax(vision: Fields, top: Fields, text: int) -> Tower:
    """models/minimax_m3/common/vision_tower.py."""
    width, depth = width_of(vision, "hidden_size"), depth_of(vision, "num_hidden_layers")
    block = blocks(width, width_of(vision, "intermediate_size"))
    compression = vision.child("img_token_compression_config") or Fields({})
    frames = compression.integer("temporal_patch_size", 1, MOST_MERGE, default=2)
    merged = merge_of(compression) * text
    middle = width_of(top, "projector_hidden_size", text)
    return Tower(
        depth * block.split + middle * (width + 1) + middle * text + middle * (merged + 1)
        + middle * text,
        depth * block.whole + patch_of(vision, "num_channels") * frames * width + 2 * width
        + 2 * text,
    )  # fmt: skip


TOWERS: dict[Vision, tuple[Callable[[Fields, Fields, int], Tower], bool]] = {
    Vision.QWEN2: (qwen2, False),
    Vision.QWEN2_5: (qwen2_5, False),
    Vision.QWEN3: (qwen3, False),
    Vision.MOON_VIT: (moon_vit, True),
    Vision.MOON_VIT_VL: (moon_vit_vl, True),
    Vision.GLM_4: (glm4, False),
    Vision.LLAMA_4: (_llama4, False),
    Vision.SIGLIP: (_siglip, False),
    Vision.GEMMA_4: (_gemma4, False),
    Vision.PIXTRAL: (_pixtral, False),
    Vision.MINIMAX: (_minimax, True),
}
"""The rule of each tower, and whether it needs the config's own numbers."""
