"""What SGLang finds free before and after it loads a model.

    KV memory = free after load - free before load x (1 - fraction)

(sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py, _profile_available_bytes; the same since
0.4.0.) No activation is measured: activations and CUDA graphs must fit what the fraction leaves.
So the estimate needs two things, the memory taken before the load (CUDA context, communicators)
and what the load takes beside the weights.

Observed, GiB per device:

| device | ranks | total | free before load | date |
|---|---|---|---|---|
| H100 80 GB | 1 | 79.2 | 78.81 | 2025-01 |
| H100 80 GB | 1 | 79.2 | 78.43, 78.48 | 2026-02, 2026-08 |
| H100 80 GB | 2 | 79.2 | 77.17 | 2024-11 |
| H100 80 GB | 2 | 79.2 | 78.77 | 2026-01 |
| H100 80 GB | 8 | 79.2 | 77.43 (1.25 by the communicators), 77.33 | 2025-09, 2026-07 |
| H800 | 16 | 79.2 | 77.75, 77.48 | 2026 |
| H200 | 16 | 139.8 | 138.09 | 2026 |
| B200 | 1 | 178.35 | 177.57 | 2026-04 |
| B200 | 4 | 178.35 | 175.34 | 2025-08 |
| MI355X | 8 | 287.98 | 283.48 to 283.96 | 2026-02 |
| L40S | 1 | 44.53 | 44.02 | 2026-07 |
| RTX 3090 | 4 | 23.57 | 23.08 | 2026 |
| GB10 | 1 | 121.6 | 111.5 to 113.9 | 2026 |

| model | ranks | weights | taken by the load |
|---|---|---|---|
| Llama-3.1-8B bf16 | 1 | 14.96 | 15.09 |
| Qwen3-8B bf16 | 1 | 15.26 | 15.28 |
| Qwen2.5-7B bf16 | 1 | 14.19 | 14.39 |
| Qwen3-14B bf16 | 4 | 6.88 | 7.08 |
| Qwen3-30B-A3B fp8 | 1 | 29.0 | 29.15 |
"""

from dataclasses import dataclass

from kvscale.core.devices.device import Device
from kvscale.core.engines.bands import gib
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.sglang.rules import SGLangRules
from kvscale.core.values import GIB, Band

_BEFORE = ((8, gib(1.2, 1.75, 4.5)), (2, gib(0.35, 1.0, 3.1)), (1, gib(0.35, 0.65, 1.3)))
"""Taken before the load, by ranks of at least this."""

_UNIFIED_SHARE = (40, 80, 350)
"""The same on a device that shares the host's memory, in thousandths of the total: the system
takes a part, and whatever else runs on the host."""

_LOAD = gib(-0.15, 0.15, 0.6)
_LOAD_PERMILLE = 25
"""Taken by the load beside the weights: a fixed part, and up to this share of them."""

_DRAFT_HIGH = 3 * GIB
"""Weights of a draft model: 0.8 (EAGLE-3 of an 8B) to 2.8 GiB (a rank of DeepSeek's MTP layer)."""


@dataclass(frozen=True, slots=True)
class Load:
    """Memory around the load of a model, per device.

    Attributes:
        free_before: bytes free before the weights are loaded.
        beside: bytes that the load takes beside the weights.
        assumptions: what was assumed.
    """

    free_before: Band
    beside: Band
    assumptions: tuple[str, ...] = ()


def load_memory(
    rules: SGLangRules,
    device: Device,
    ranks: int,
    weight_bytes: int,
    options: SGLangOptions,
) -> Load:
    """What is free before a load and what it takes, as bands.

    Args:
        rules: of the version.
        device: one of the devices.
        ranks: devices of the parallel group.
        weight_bytes: of the rank.
        options: a draft model's weights are loaded before the pool is sized from 0.5.14.
    """
    total = device.memory_bytes
    assumptions: tuple[str, ...] = ()
    if device.unified_memory:
        low, expected, high = (total * share // 1000 for share in _UNIFIED_SHARE)
        taken = Band(low, expected, high)
        assumptions = (
            "the device shares the host's memory: whatever else runs there comes off the KV cache",
        )
    else:
        taken = next(band for least, band in _BEFORE if ranks >= least)
    high = _LOAD.high + weight_bytes * _LOAD_PERMILLE // 1000
    unknown = options.speculative not in {"", "NGRAM"} and options.draft_layers != 0
    if unknown and rules.draft_priced:
        high += _DRAFT_HIGH
        assumptions += ("the weights of the draft model are not known: 0 to 3 GiB per device",)
    if not rules.known:
        high += GIB
    return Load(
        free_before=Band(total - taken.high, total - taken.expected, total - taken.low),
        beside=Band(_LOAD.low, _LOAD.expected, high),
        assumptions=assumptions,
    )
