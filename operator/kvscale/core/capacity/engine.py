"""The engine's own number: the blocks of one engine, from shape, settings and device.

One interface, a package per engine: `core.capacity.vllm`, `sglang`, `trtllm`. A package is loaded
when its engine is first asked about: most questions are about one, and start sooner for it.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Protocol

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import Band

CACHED = 4096
"""Answers kept: one per pool and template, with room for a large fleet."""


class EngineRules(Protocol):
    """What an engine's package answers; the arguments are those of `engine_capacity`."""

    def __call__(
        self,
        shape: ModelShape,
        engine: EngineConfig,
        device: Device,
        kv_memory_bytes: int | None,
        *,
        explained: bool,
    ) -> EngineCapacity | Refusal:
        """The capacity of one engine."""
        ...


_RULES: Mapping[EngineKind, tuple[str, str]] = MappingProxyType(
    {
        EngineKind.VLLM: ("kvscale.core.capacity.vllm.engine", "vllm_capacity"),
        EngineKind.SGLANG: ("kvscale.core.capacity.sglang.engine", "sglang_capacity"),
        EngineKind.TENSORRT_LLM: ("kvscale.core.capacity.trtllm.engine", "tensorrt_llm_capacity"),
    }
)


@cache
def _rules(kind: EngineKind) -> EngineRules:
    module, function = _RULES[kind]
    found: EngineRules = getattr(import_module(module), function)
    return found


@lru_cache(maxsize=CACHED)
def engine_capacity(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None = None,
    *,
    explained: bool = True,
) -> EngineCapacity | Refusal:
    """What one engine (one KV pool) holds.

    Args:
        shape: the model, as its checkpoint stores it.
        engine: how the engine was started; None there means the engine's own default.
        device: one of the devices that it runs on (all are alike).
        kv_memory_bytes: bytes for KV per device where a running engine has reported them; they
            win over `engine.kv_cache_memory_bytes` and over any estimate.
        explained: False: without the trace, for whoever compares many and shows few.

    Returns:
        The capacity with its trace, or a Refusal that names the setting at fault and the mend:
        whatever the engine itself would not start with, and what has no rule here.
    """
    return _rules(engine.kind)(shape, engine, device, kv_memory_bytes, explained=explained)


def sequences_at(capacity: EngineCapacity, tokens: int) -> Band:
    """Resident sequences of that length that the blocks of one engine hold.

    The KV ceiling alone; the engine runs no more than `max_num_seqs` of them.

    Args:
        capacity: of the engine.
        tokens: length of each sequence, positive.
    """
    each = capacity.blocks_for(max(1, tokens))
    usable = capacity.usable_blocks
    return Band(usable.low // each, usable.expected // each, usable.high // each)
