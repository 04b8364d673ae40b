"""The blocks of one vLLM engine, from shape, settings and device."""

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.capacity.placement import stages
from kvscale.core.capacity.vllm.allocation import (
    allocate,
    blocks_of,
    bytes_per_block,
    cache_groups,
    longest_within,
)
from kvscale.core.capacity.vllm.budget import Budget, kv_budget
from kvscale.core.capacity.vllm.settings import Settings, resolve
from kvscale.core.capacity.vllm.steps import Ceiling, StageRoom, block_steps, page_steps
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.rules import RESERVED_BLOCKS, printed_tokens
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, Band


def vllm_capacity(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None,
    *,
    explained: bool,
) -> EngineCapacity | Refusal:
    """What one vLLM engine holds; see `core.capacity.engine.engine_capacity`."""
    settings = resolve(shape, engine, device)
    if isinstance(settings, Refusal):
        return settings
    room = _rooms(settings, engine, device, kv_memory_bytes, explained=explained)
    if isinstance(room, Refusal):
        return room
    # The smallest stage decides; its arithmetic is the trace.
    tightest = min(room, key=lambda one: one.blocks(one.budget.kv_memory.expected))
    blocks = Band(
        min(one.blocks(one.budget.kv_memory.low) for one in room),
        min(one.blocks(one.budget.kv_memory.expected) for one in room),
        min(one.blocks(one.budget.kv_memory.high) for one in room),
    )
    if engine.num_gpu_blocks_override is not None:
        refusal = _override_refused(engine.num_gpu_blocks_override, room, device)
        if refusal is not None:
            return refusal
        blocks = Band.point(engine.num_gpu_blocks_override)
    return _capacity(settings, engine, tightest, blocks, explained=explained)


def _rooms(
    settings: Settings,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None,
    *,
    explained: bool,
) -> tuple[StageRoom, ...] | Refusal:
    stated = engine.kv_cache_memory_bytes
    given = stated if kv_memory_bytes is None else kv_memory_bytes
    if given is not None and given <= 0:
        return Refusal(
            "InvalidKvCacheMemory",
            "--kv-cache-memory-bytes",
            f"--kv-cache-memory-bytes is {given}; it must be positive",
        )
    try:
        tables = allocate(settings, engine)
    except Refused as refused:
        return refused.refusal
    rooms = []
    for stage in stages(settings.shape.layers, engine.pipeline_parallel):
        budget = kv_budget(settings, engine, device, stage, given, explained=explained)
        if budget.kv_memory.high <= 0 or (
            kv_memory_bytes is None
            and budget.exact
            and budget.weight_bytes + budget.kv_memory.low > device.memory_bytes
        ):
            return _does_not_fit(budget, device)
        groups = cache_groups(tables, settings, engine, stage)
        # A stage without a layer that keeps anything limits nothing.
        each = bytes_per_block(groups)
        if each:
            rooms.append(StageRoom(stage, budget, groups, each, tables))
    return tuple(rooms)


def _override_refused(
    override: int, rooms: tuple[StageRoom, ...], device: Device
) -> Refusal | None:
    """Why that many blocks cannot be; None where they can.

    vllm v0.32.0 v1/core/kv_cache_utils.py, may_override_num_blocks: the number is taken whatever
    was profiled, and allocated; beside the weights it must fit the device.
    """
    flag = "--num-gpu-blocks-override"
    if not 1 <= override <= 1 << 40:
        return Refusal("InvalidBlocks", flag, f"{flag} is {override}; it must be positive")
    for room in rooms:
        left = max(0, device.memory_bytes - room.budget.weight_bytes)
        if override * room.bytes_per_block > left:
            return Refusal(
                "ModelDoesNotFit",
                flag,
                f"{flag} is {override}: blocks of {override * room.bytes_per_block / GIB:.2f} GiB "
                f"and weights of {room.budget.weight_bytes / GIB:.2f} GiB do not fit "
                f"{device.product} with {device.memory_bytes / GIB:.2f} GiB; at most "
                f"{left // room.bytes_per_block} do",
            )
    return None


def _does_not_fit(budget: Budget, device: Device) -> Refusal:
    weights = budget.weight_bytes / GIB
    total = device.memory_bytes / GIB
    if budget.exact:
        return Refusal(
            "ModelDoesNotFit",
            "--kv-cache-memory-bytes",
            f"weights of {weights:.2f} GiB and KV of {budget.kv_memory.low / GIB:.2f} GiB do not "
            f"fit {device.product} with {total:.2f} GiB; lower --kv-cache-memory-bytes",
        )
    return Refusal(
        "ModelDoesNotFit",
        "--tensor-parallel-size",
        f"weights of {weights:.2f} GiB per device leave nothing for KV on {device.product} with "
        f"{total:.2f} GiB; raise --tensor-parallel-size or --gpu-memory-utilization, or take a "
        "quantised checkpoint or a larger device",
    )


def _sequence_does_not_fit(
    groups: tuple[CacheGroup, ...], blocks: Band, length: int, needed: int
) -> Refusal:
    usable = max(0, blocks.high - RESERVED_BLOCKS)
    fits = longest_within(groups, usable, length)
    certain = longest_within(groups, blocks.low - RESERVED_BLOCKS, length)
    lower = f"{certain}, which fits for certain" if certain else f"{fits} or less"
    if 0 < certain < fits:
        lower += f" (up to {fits} may)"
    return Refusal(
        "SequenceDoesNotFit",
        "--max-model-len",
        f"one sequence of {max(length, 1)} tokens needs {needed} blocks; the engine has at "
        f"most {usable}. Lower --max-model-len to {lower}, or give the engine more memory"
        if fits
        else "the engine has no room for a single sequence; give it more memory",
    )


def _capacity(
    settings: Settings, engine: EngineConfig, room: StageRoom, blocks: Band, *, explained: bool
) -> EngineCapacity | Refusal:
    groups, block_tokens = room.groups, settings.block_tokens
    length = settings.max_model_len
    assumptions = settings.assumptions + room.budget.assumptions
    taken = blocks.expected * room.bytes_per_block
    if engine.num_gpu_blocks_override is not None and taken > room.budget.kv_memory.expected:
        more = (
            f"--num-gpu-blocks-override asks for {taken / GIB:.2f} GiB, more than the engine's "
            "share leaves for KV: it starts only where that much of the device is free"
        )
        assumptions += (more,)
    certain = longest_within(groups, blocks.low - RESERVED_BLOCKS, length)
    if settings.auto_length:
        length = certain
        assumptions += (f"--max-model-len is automatic: {length} tokens fit for certain",)
    needed = blocks_of(groups, max(1, length))
    if length == 0 or needed > blocks.high - RESERVED_BLOCKS:
        return _sequence_does_not_fit(groups, blocks, length, needed)
    if certain < length:
        assumptions += (f"{length} tokens may not fit the engine: only {certain} are certain",)

    smallest = min(group.block_tokens for group in groups)
    ranks = engine.decode_context_parallel

    def tokens(count: int) -> int:
        return printed_tokens(
            settings.rules, count, smallest, needed, length, tables=len(groups), ranks=ranks
        )

    memory = room.budget.kv_memory
    printed = Band(tokens(blocks.low), tokens(blocks.expected), tokens(blocks.high))
    return EngineCapacity(
        block_tokens=block_tokens,
        bytes_per_block=room.bytes_per_block,
        weight_bytes_per_device=room.budget.weight_bytes,
        kv_memory_bytes=Band(max(0, memory.low), max(0, memory.expected), memory.high),
        kv_blocks=blocks,
        reserved_blocks=RESERVED_BLOCKS,
        kv_cache_size_tokens=printed,
        max_concurrency_milli=Band(
            1000 * blocks.low // needed,
            1000 * blocks.expected // needed,
            1000 * blocks.high // needed,
        ),
        max_model_len=length,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        devices=engine.devices,
        groups=groups,
        assumptions=assumptions,
        trace=(
            *room.budget.trace,
            *page_steps(settings, engine, room),
            *block_steps(settings, engine, room, Ceiling(blocks, length, needed, printed.expected)),
        )
        if explained
        else (),
    )
