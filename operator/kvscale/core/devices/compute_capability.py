"""The compute capability of a device, as the vendors write it: "9.0", "gfx942"."""

from functools import lru_cache

Capability = tuple[int, int]
"""(major, minor) of an NVIDIA device's compute capability."""

NATIVE_FP8: Capability = (8, 9)
"""From which NVIDIA devices have fp8 arithmetic (Ada; vllm v0.32.0 platforms/cuda.py)."""


@lru_cache(maxsize=256)
def capability_of(text: str) -> Capability | None:
    """(major, minor) of "9.0"; None if it is not known, or another vendor's."""
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and (minor or "0").isdecimal()):
        return None
    return int(major), int(minor or "0")


def compute_major(text: str) -> str:
    """The generation: "9" of "9.0"; "" if it is not known, another vendor's name as it is."""
    return text.partition(".")[0]
