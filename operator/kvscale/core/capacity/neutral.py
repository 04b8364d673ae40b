"""What does not depend on which engine it is: the model as it is loaded.

The model is read through vLLM's resolver, `core.capacity.vllm.settings`, for every engine: the
others take from its result what is about the model (its formats, how it is split, how long it may
be), put refusals into their own words, and resolve their own settings themselves.
"""

from collections.abc import Mapping
from dataclasses import replace

from kvscale.core.capacity.vllm.settings import Settings, resolve
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.dtypes import kv_dtype
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal


def neutral(engine: EngineConfig) -> EngineConfig:
    """The same model on the same devices, as a vLLM engine with its own defaults.

    A vLLM engine is returned as it is.
    """
    if engine.kind is EngineKind.VLLM:
        return engine
    known = kv_dtype(engine.kv_cache_dtype) is not None
    return replace(
        engine,
        kind=EngineKind.VLLM,
        version=None,
        memory_utilization_milli=None,
        kv_cache_memory_bytes=None,
        kv_cache_dtype=engine.kv_cache_dtype if known else "auto",
        max_num_seqs=None,
        max_num_batched_tokens=None,
        block_size=None,
        num_gpu_blocks_override=None,
        decode_context_parallel=1,
        speculative_tokens=0,
        speculative_method="",
        speculative_model="",
        options=None,
    )


def resolve_model(
    shape: ModelShape, engine: EngineConfig, device: Device, words: Mapping[str, str]
) -> Settings | Refusal:
    """Settings of the model on the engine's devices; a refusal is in the engine's own words."""
    settings = resolve(shape, replace(neutral(engine), kv_cache_dtype="auto"), device)
    return in_words(settings, words) if isinstance(settings, Refusal) else settings


def in_words(refusal: Refusal, words: Mapping[str, str]) -> Refusal:
    """The refusal with another engine's names of the settings."""
    message = refusal.message
    for ours, theirs in words.items():
        message = message.replace(ours, theirs)
    return Refusal(refusal.reason, words.get(refusal.field, refusal.field), message)
