"""What vision towers have in common: their blocks, and the reading of their sizes.

The matrices of a tower's blocks are split over tensor parallelism (vllm v0.32.0
model_executor/models/vision.py); patch and position embeddings and norms are not.
"""

from dataclasses import dataclass

from kvscale.core.model.fields import Fields

ROTARY_POSITIONS = 8192
"""Positions of the tower's rotary table (vllm v0.32.0 qwen3_vl.py, `max_position=8192`)."""

MOST_LAYERS = 1_000
MOST_WIDTH = 1 << 17
MOST_POSITIONS = 1 << 22
MOST_PATCH = 1 << 10
MOST_MERGE = 64


@dataclass(frozen=True, slots=True)
class Tower:
    """A vision tower in numbers.

    Attributes:
        split, whole: parameters that the ranks share, and that each holds.
        table: elements of its rotary table.
    """

    split: int
    whole: int
    table: int = 0


def blocks(
    width: int, inner: int, *, bias: bool = True, gated: bool = False, norm_bias: bool = True
) -> Tower:
    """One block: Q, K, V, output, a feed-forward of two or three matrices, two norms."""
    # Column-parallel matrices split their bias too, row-parallel ones repeat it.
    up = (1 + gated) * inner
    split = 3 * width * (width + bias) + width * width + up * (width + bias) + inner * width
    return Tower(split, 2 * width * bias + 2 * width * (1 + norm_bias))


def width_of(vision: Fields, key: str, default: int | None = None) -> int:
    """A width of the tower, by its key."""
    return vision.integer(key, 1, MOST_WIDTH, default=default)


def depth_of(vision: Fields, key: str, default: int | None = None) -> int:
    """Its number of blocks, by its key."""
    return vision.integer(key, 1, MOST_LAYERS, default=default)


def patch_of(vision: Fields, channels: str = "in_channels", default: int | None = None) -> int:
    """Pixels of a patch, colours included."""
    return (
        vision.integer(channels, 1, MOST_MERGE, default=3)
        * vision.integer("patch_size", 1, MOST_PATCH, default=default) ** 2
    )


def merge_of(vision: Fields, key: str = "spatial_merge_size", default: int = 2) -> int:
    """Patches that become one token."""
    return vision.integer(key, 1, MOST_MERGE, default=default) ** 2
