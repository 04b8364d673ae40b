"""What a TensorRT-LLM server holds: blocks, from shape, settings and device.

Layers whose window is smaller than the longest sequence have a pool of their own, and the memory is
shared out so that each pool serves the same number of longest sequences (tensorrt_llm
_torch/pyexecutor/resource_manager.py, calculate_max_num_blocks_for_vswa). The PyTorch backend; an
engine built ahead is refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.capacity.neutral import resolve_model
from kvscale.core.capacity.placement import Stage, stage_groups, stages, weight_parts
from kvscale.core.capacity.pools import Pool
from kvscale.core.capacity.trtllm.settings import TrtSettings, kept_window, resolve_tensorrt
from kvscale.core.capacity.trtllm.steps import TrtRoom, trace
from kvscale.core.devices.device import Device
from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.engines.trtllm.rules import peak_beside_weights, trt_rules
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, Band

_UNLIMITED = 1 << 50
"""Tokens of a pipeline stage that has no cache."""

_KINDS = frozenset({
    LayerKind.FULL_ATTENTION, LayerKind.MLA, LayerKind.SPARSE_INDEXER, LayerKind.SLIDING_WINDOW,
    LayerKind.CHUNKED_LOCAL,
})  # fmt: skip


_WORDS: Mapping[str, str] = MappingProxyType(
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
"""vLLM's names of settings, as TensorRT-LLM calls them."""


def tensorrt_llm_capacity(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None,
    *,
    explained: bool,
) -> EngineCapacity | Refusal:
    """What one TensorRT-LLM engine (one KV pool) holds; see `engine_capacity`."""
    rules = trt_rules(engine.version)
    if isinstance(rules, Refusal):
        return rules
    model = resolve_model(shape, engine, device, _WORDS)
    if isinstance(model, Refusal):
        return model
    given = engine.kv_cache_memory_bytes if kv_memory_bytes is None else kv_memory_bytes
    if given is not None and given <= 0:
        return Refusal(
            "InvalidKvCacheMemory",
            "kv_cache_config.max_gpu_total_bytes",
            f"kv_cache_config.max_gpu_total_bytes is {given}; it must be positive",
        )
    try:
        settings = resolve_tensorrt(model.shape, engine, rules, model.max_model_len)
        rooms = [
            _room(settings, engine, device, stage, given)
            for stage in stages(model.shape.layers, engine.pipeline_parallel)
        ]
        return _capacity(settings, engine, device, rooms, explained=explained)
    except Refused as refused:
        return refused.refusal


def _room(
    settings: TrtSettings, engine: EngineConfig, device: Device, stage: Stage, given: int | None
) -> TrtRoom:
    shape, tensor = settings.shape, engine.tensor_parallel
    cache = CacheFormat(tensor_parallel=tensor, kv=settings.kv, activations=shape.dtype)
    groups = []
    for group in stage_groups(shape, stage):
        if group.kind not in _KINDS or group.tokens_per_entry > 1:
            raise Refused(
                "UnsupportedLayerKind",
                "layer_types",
                f"the model has layers of kind {group.kind.value}, whose pools in TensorRT-LLM are "
                "not known here; state targets[].engine.kvCacheMemoryBytes with vLLM, or read the "
                "size from the running server (trtllm_kv_cache_max_blocks)",
            )
        size = group.layers * RULES[group.kind].page_bytes(group, 1, cache)
        groups.append((group, size, kept_window(settings, group)))
    experts = engine.data_parallel if settings.options.attention_dp else 1
    parts = weight_parts(shape.weight_groups, shape.layers, stage, tensor, experts)
    weights = sum(parts.values())
    peak = peak_beside_weights(shape, engine.devices * experts, tensor, settings.step_tokens)
    total, milli = device.memory_bytes, settings.fraction_milli
    memory = Band(
        *((total - weights - taken) * milli // 1000
          for taken in (peak.total.high, peak.total.expected, peak.total.low))
    )  # fmt: skip
    if given is not None:
        memory = Band.point(given)
    cap = settings.options.max_gpu_total_bytes
    if cap is not None and cap > 0:
        memory = Band(min(memory.low, cap), min(memory.expected, cap), min(memory.high, cap))
    return TrtRoom(stage, parts, memory, tuple(groups), peak, given)


def _tokens(settings: TrtSettings, room: TrtRoom, memory: int) -> int:
    """Tokens of the pool of full attention, or of the only pool there is."""
    length = settings.max_model_len
    each = room.sequence_bytes(length)
    if each == 0:  # a stage whose layers cache nothing limits nothing
        return _UNLIMITED
    tokens = max(0, memory) * length // each
    if room.token_bytes() == 0:  # windows everywhere: the pool holds so many windows
        widest = max(window or 0 for _, _, window in room.groups)
        tokens = max(0, memory) * min(length, widest) // each
    most = settings.options.max_tokens
    return tokens if most is None else min(tokens, most)


def _capacity(
    settings: TrtSettings,
    engine: EngineConfig,
    device: Device,
    rooms: list[TrtRoom],
    *,
    explained: bool,
) -> EngineCapacity:
    block, length = settings.block_tokens, settings.max_model_len
    found = [
        Band(*(_tokens(settings, room, m) // block for m in
               (room.memory.low, room.memory.expected, room.memory.high)))
        for room in rooms
    ]  # fmt: skip
    blocks = Band(
        min(b.low for b in found), min(b.expected for b in found), min(b.high for b in found)
    )
    room = min(zip(found, rooms, strict=True), key=lambda pair: pair[0].expected)[1]
    if settings.options.max_tokens is not None and settings.options.max_tokens < block:
        raise Refused(
            "InvalidMaxTotalTokens",
            "--max-total-tokens",
            f"--max-total-tokens is {settings.options.max_tokens}; a block holds {block} tokens: "
            "raise it to as many at least",
        )
    if blocks.high == 0:
        raise Refused(
            "ModelDoesNotFit",
            "--tp_size",
            f"weights of {room.weight_bytes / GIB:.2f} GiB per device leave nothing for KV on "
            f"{device.product} with {device.memory_bytes / GIB:.2f} GiB; raise --tp_size, or take "
            "a quantised checkpoint or a larger device",
        )
    assumptions = settings.assumptions
    if engine.speculative_method or engine.speculative_tokens:
        assumptions += ("the memory of the drafter is not known and not counted",)
    if blocks.expected * block < length:
        length = max(1, blocks.expected * block)
        assumptions += (f"requests of more than {length} tokens do not fit the pool",)
    full, held = room.token_bytes(), room.sequence_bytes(settings.max_model_len)
    tokens = blocks.expected * block
    pools = [Pool("full", tokens, tokens)]
    widest = max((window for _, _, window in room.groups if window), default=0)
    if widest:
        # One pool serves as many longest sequences as the other.
        size = tokens * min(widest, settings.max_model_len) // settings.max_model_len
        most = widest + block
        if full:
            pools.append(Pool("window", max(block, size), tokens, most=most, resident=most))
    capacity = EngineCapacity(
        block_tokens=block,
        bytes_per_block=-(-held * block // settings.max_model_len),
        weight_bytes_per_device=room.weight_bytes,
        kv_memory_bytes=Band(
            *(max(0, m) for m in (room.memory.low, room.memory.expected, room.memory.high))
        ),
        kv_blocks=blocks,
        reserved_blocks=0,
        kv_cache_size_tokens=Band(blocks.low * block, blocks.expected * block, blocks.high * block),
        max_concurrency_milli=Band.point(0),
        max_model_len=length,
        max_num_seqs=settings.batch,
        max_num_batched_tokens=settings.step_tokens,
        devices=engine.devices,
        groups=tuple(
            CacheGroup(group.kind, group.layers, block, size * block)
            for group, size, _ in room.groups
        ),
        assumptions=assumptions,
        pools=tuple(pools),
    )
    needed = max(1, capacity.blocks_for(length))
    return replace(
        capacity,
        max_concurrency_milli=Band(
            *(1000 * n // needed for n in (blocks.low, blocks.expected, blocks.high))
        ),
        trace=trace(settings, device, room, blocks, capacity) if explained else (),
    )
