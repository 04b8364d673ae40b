"""Checkpoints in compressed-tensors, and the KV cache that a checkpoint asks for.

Sources: vllm v0.32.0 model_executor/layers/quantization/compressed_tensors/compressed_tensors.py
and schemes; quantization/modelopt.py (`kv_cache_quant_algo`).
"""

from collections.abc import Mapping
from typing import Any

from kvscale.core.model.checkpoint.module_patterns import MOST_PATTERNS, ModulePatterns
from kvscale.core.model.checkpoint.storage import (
    MOST_GROUP,
    Quantization,
    Scheme,
    grouped,
    patterns,
)
from kvscale.core.model.fields import Fields, Refused, shown

MOST_GROUPS = 100
FP4_BITS = 4
FP8_BITS = 8
NVFP4_GROUP = 16
MXFP_GROUP = 32

_CACHES = {"FP8": "fp8", "NVFP4": "nvfp4"}


def _weights(weights: Fields) -> int:
    """Thousandths of a bit per parameter of one group's weights."""
    bits = weights.integer("num_bits", 2, 16)
    size = weights.integer("group_size", -1, MOST_GROUP, default=-1)
    if weights.text("type", "int") == "float":
        if bits == FP4_BITS:
            return grouped(bits, 8, size if size > 0 else NVFP4_GROUP)
        # mxfp8 has an 8-bit exponent per group; a float of 8 bits has none otherwise.
        return grouped(bits, 8, size) if size == MXFP_GROUP else bits * 1000
    if size > 0:
        zero = 0 if weights.flag("symmetric", default=True) else bits
        return grouped(bits, 16, size, zero)
    return bits * 1000


def compressed_tensors(config: Fields) -> Quantization:
    """compressed-tensors: a storage per group of modules.

    Args:
        config: `quantization_config`.

    Raises:
        Refused: no group, or a cache scheme without a rule here.
    """
    groups = config.child("config_groups")
    if groups is None or not 0 < len(groups.data) <= MOST_GROUPS:
        raise Refused(
            "InvalidConfig",
            f"{config.path}config_groups",
            f"{config.path}config_groups is missing, empty or has more than "
            f"{MOST_GROUPS} groups; it must say how weights are stored",
        )
    schemes = []
    for name in groups.data:
        group = groups.child(str(name))
        weights = group.child("weights") if group is not None else None
        if group is None or weights is None:
            continue
        stored = _weights(weights)
        targets = group.items("targets", MOST_PATTERNS) or ["Linear"]
        everything = any(isinstance(t, str) and t in {"Linear", "FusedMoE"} for t in targets)
        where = None if everything else ModulePatterns(targets, f"{group.path}targets")
        schemes.append(Scheme(stored, where))
    # Targeted groups come first: what is named closely wins over "Linear".
    schemes.sort(key=lambda scheme: scheme.modules is None)
    return Quantization(
        "compressed-tensors", tuple(schemes), patterns(config, "ignore", "ignored_layers"),
        kv_cache=kv_cache_dtype(config.data.get("kv_cache_scheme")),
    )  # fmt: skip


def kv_cache_dtype(scheme: Any) -> str:
    """The KV cache dtype that a checkpoint's scheme asks for.

    Raises:
        Refused: a scheme that is neither 8-bit float nor NVFP4.
    """
    if scheme is None or scheme in ("", "NONE"):
        return ""
    if isinstance(scheme, str) and scheme.upper() in _CACHES:
        return _CACHES[scheme.upper()]
    if isinstance(scheme, Mapping):
        fields = Fields(scheme, "kv_cache_scheme.")
        if fields.integer("num_bits", 1, 16) == FP8_BITS and fields.text("type") == "float":
            return "fp8"
    raise Refused(
        "UnsupportedQuantization",
        "kv_cache_scheme",
        f"kv_cache_scheme is {shown(scheme)}; known are FP8 and NVFP4. Set --kv-cache-dtype",
    )
