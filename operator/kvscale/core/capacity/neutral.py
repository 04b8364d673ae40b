"""What does not depend on which engine it is: the model as it is loaded, and its speed.

Settings are resolved once, by `core.capacity.vllm.settings`, in vLLM's terms; other engines take
from there what is about the model (its formats, how it is split, how long it may be) and put
refusals into their own words.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.vllm.settings import Settings, resolve
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.dtypes import kv_dtype
from kvscale.core.model.shape import ModelShape

SGLANG_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "--max-model-len": "--context-length",
        "--max-num-seqs": "--max-running-requests",
        "--max-num-batched-tokens": "--chunked-prefill-size",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--gpu-memory-utilization": "--mem-fraction-static",
        "--block-size": "--page-size",
        "--kv-cache-memory-bytes": "targets[].engine.kvCacheMemoryBytes",
    }
)
TENSORRT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "--max-model-len": "--max_seq_len",
        "--max-num-seqs": "--max_batch_size",
        "--max-num-batched-tokens": "--max_num_tokens",
        "--tensor-parallel-size": "--tp_size",
        "--pipeline-parallel-size": "--pp_size",
        "--data-parallel-size": "targets[].engine.dataParallel",
        "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
        "--block-size": "kv_cache_config.tokens_per_block",
        "--kv-cache-dtype": "--kv_cache_dtype",
        "--kv-cache-memory-bytes": "kv_cache_config.max_gpu_total_bytes",
    }
)


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
