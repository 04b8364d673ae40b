"""What an SGLang server holds: its pools, from shape, settings and device.

Capacity is counted in pages of the pool of full attention, `max_total_num_tokens` in SGLang's own
words. A window pool is that times `--swa-full-tokens-ratio`; recurrent states take their share of
the budget first (core/capacity/sglang/states.py). Source: sglang 0.5.23
srt/mem_cache/kv_cache_configurator.py and srt/model_executor/pool_configurator.py.
"""

from dataclasses import dataclass, replace

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.capacity.placement import Stage, stages, weight_parts
from kvscale.core.capacity.sglang.cells import Cells, cells
from kvscale.core.capacity.sglang.pools import (
    largest_batch,
    pools_of,
    swa_ratio_ppm,
    window_cap,
)
from kvscale.core.capacity.sglang.settings import SGLangSettings, resolve_sglang
from kvscale.core.capacity.sglang.states import (
    StateDemand,
    StatePool,
    state_pool,
    state_share,
)
from kvscale.core.capacity.sglang.steps import Account, trace
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.sglang.memory import Load, load_memory
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, MIB, Band


@dataclass(frozen=True, slots=True)
class _Room:
    """What one rank of a stage has.

    Attributes:
        stage: its layers.
        cells: what a token, and a state, costs the rank.
        weights: bytes of each part of the model.
        load: bytes free before the load, and taken by it; None where the KV memory is given.
        budget: bytes for states and KV; may be negative.
        states: the pool of states within the expected budget; None for none.
        kv: bytes for KV alone; may be negative.
        tokens: of the pool that is counted: of full attention, or of windows where all are.
        cell_milli: thousandths of a byte that a token of that pool costs in all pools.
        reserve: bytes kept back for images and sound.
        window_pool: bytes of a pool of windows that is sized by requests; 0: by its share.
    """

    stage: Stage
    cells: Cells
    weights: dict[str, int]
    load: Load | None
    budget: Band
    states: StatePool | None
    kv: Band
    tokens: Band
    cell_milli: int
    reserve: int
    window_pool: int

    @property
    def weight_bytes(self) -> int:
        return sum(self.weights.values())


def sglang_capacity(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None,
    *,
    explained: bool,
) -> EngineCapacity | Refusal:
    """What one SGLang engine (one KV pool) holds; see `engine_capacity`."""
    settings = resolve_sglang(shape, engine, device)
    if isinstance(settings, Refusal):
        return settings
    given = engine.kv_cache_memory_bytes if kv_memory_bytes is None else kv_memory_bytes
    if given is not None and given <= 0:
        return Refusal(
            "InvalidKvCacheMemory",
            "targets[].engine.kvCacheMemoryBytes",
            f"targets[].engine.kvCacheMemoryBytes is {given}; it must be positive",
        )
    try:
        rooms = [
            _room(settings, engine, device, stage, given)
            for stage in stages(settings.shape.layers, engine.pipeline_parallel)
        ]
    except Refused as refused:
        return refused.refusal
    tightest = min(rooms, key=lambda room: room.tokens.expected)
    if tightest.tokens.high <= 0:
        return _does_not_fit(settings, tightest, device)
    return _capacity(settings, engine, device, tightest, rooms, explained=explained)


def _room(
    settings: SGLangSettings, engine: EngineConfig, device: Device, stage: Stage, given: int | None
) -> _Room:
    shape, rules = settings.shape, settings.rules
    held = cells(shape, engine, rules, settings.kv, stage)
    parts = weight_parts(
        shape.weight_groups, shape.layers, stage, engine.tensor_parallel, settings.attention_ranks
    )
    weights = sum(parts.values())
    ranks = engine.devices * settings.attention_ranks
    load = load_memory(rules, device, ranks, weights, settings.options)
    multimodal = any(group.name.startswith("vision") for group in shape.weight_groups)
    reserve = rules.multimodal_reserve_mib * MIB if multimodal else 0

    def budget(free: int, beside: int) -> int:
        return free * settings.fraction_milli // 1000 - weights - beside - reserve

    whole = Band(
        budget(load.free_before.low, load.beside.high),
        budget(load.free_before.expected, load.beside.expected),
        budget(load.free_before.high, load.beside.low),
    )
    states = None
    kv = whole if given is None else Band.point(given)
    if held.state:
        demand = StateDemand(
            held.state,
            rules.slots_per_request(
                settings.options.mamba_strategy,
                radix=settings.radix,
                overlap=settings.options.overlap,
            ),
            settings.requests,
            settings.radix,
            settings.drafts,
        )
        if given is not None:
            whole = Band.point(given + state_share(settings.options, given))
        rests = (whole.low, whole.expected, whole.high)
        pools = [state_pool(rules, settings.options, demand, max(0, rest)) for rest in rests]
        states = pools[1]
        if given is None:
            left = [rest - pool.bytes for rest, pool in zip(rests, pools, strict=True)]
            # States take whole slots, so a little more memory may leave a little less for KV.
            kv = Band(min(left), left[1], max(left))
    cap = window_cap(settings, held)
    beside = 0 if cap is None else cap * held.window
    cell = _cell_milli(settings, held if cap is None else replace(held, window=0))
    page = settings.page_tokens

    def tokens(memory: int) -> int:
        count = max(0, memory - beside) * 1000 // cell if cell else settings.max_model_len
        most = settings.options.max_total_tokens
        return (count if most is None else min(count, most)) // page * page

    return _Room(
        stage, held, parts, load if given is None else None, whole, states, kv,
        Band(tokens(kv.low), tokens(kv.expected), tokens(kv.high)), cell, reserve, beside,
    )  # fmt: skip


def _cell_milli(settings: SGLangSettings, held: Cells) -> int:
    """Thousandths of a byte that one token of the counted pool costs in all pools."""
    drafts = settings.options.draft_layers or 0
    full = held.full
    if drafts and settings.rules.draft_priced and held.attention_layers:
        full += full * drafts // held.attention_layers
    if not held.full:
        return 1000 * held.window  # only windows: their pool is the one that is counted
    return 1000 * full + swa_ratio_ppm(settings) * held.window // 1000


def _does_not_fit(settings: SGLangSettings, room: _Room, device: Device) -> Refusal:
    total = device.memory_bytes / GIB
    states = ""
    if room.states is not None and room.budget.expected > 0:
        states = f", and recurrent states {room.states.bytes / GIB:.2f} GiB"
    return Refusal(
        "ModelDoesNotFit",
        "--tp-size" if room.states is None or room.budget.high <= 0 else "--max-mamba-cache-size",
        f"weights of {room.weight_bytes / GIB:.2f} GiB per device{states} leave nothing for KV on "
        f"{device.product} with {total:.2f} GiB at --mem-fraction-static "
        f"{settings.fraction_milli / 1000}; raise --tp-size or --mem-fraction-static, or take a "
        "quantised checkpoint or a larger device",
    )


def _capacity(
    settings: SGLangSettings,
    engine: EngineConfig,
    device: Device,
    room: _Room,
    rooms: list[_Room],
    *,
    explained: bool,
) -> EngineCapacity | Refusal:
    page = settings.page_tokens
    tokens = Band(
        min(one.tokens.low for one in rooms),
        min(one.tokens.expected for one in rooms),
        min(one.tokens.high for one in rooms),
    )
    blocks = Band(tokens.low // page, tokens.expected // page, tokens.high // page)
    requests = largest_batch(settings, room.states, tokens.expected)
    if requests == 0 and room.states is None:
        return _does_not_fit(settings, room, device)  # where all goes well it would, by a little
    if requests == 0:
        return Refusal(
            "ModelDoesNotFit",
            "--max-mamba-cache-size",
            "the pool of recurrent states holds no request; raise --mamba-full-memory-ratio, "
            "--max-mamba-cache-size or --mem-fraction-static",
        )
    assumptions = settings.assumptions + (room.load.assumptions if room.load else ())
    if settings.options.speculative not in {"", "NGRAM"} and settings.options.draft_layers is None:
        assumptions += ("the KV layers of the draft model are not known and not counted",)
    length = settings.max_model_len
    if length >= tokens.expected:
        length = max(1, tokens.expected - 1)
        assumptions += (
            f"the server takes requests of up to {length} tokens: its pool holds no more",
        )
    capacity = EngineCapacity(
        block_tokens=page,
        bytes_per_block=-(-room.cell_milli * page // 1000),
        weight_bytes_per_device=room.weight_bytes,
        kv_memory_bytes=Band(*(max(0, n) for n in (room.kv.low, room.kv.expected, room.kv.high))),
        kv_blocks=blocks,
        reserved_blocks=0,
        kv_cache_size_tokens=tokens,
        max_concurrency_milli=Band.point(0),
        max_model_len=length,
        max_num_seqs=requests,
        max_num_batched_tokens=settings.chunk,
        devices=engine.devices,
        groups=_groups(settings, room),
        assumptions=assumptions,
        pools=pools_of(settings, room.cells, room.states, tokens.expected),
    )
    needed = capacity.blocks_for(length)
    account = Account(
        device, room.stage, room.cells, room.load, room.budget, room.states,
        room.kv, room.cell_milli, swa_ratio_ppm(settings), tokens, needed,
        room.reserve, room.window_pool, room.weights, settings.rules.state_padding,
        capacity.pools, length,
    )  # fmt: skip
    return replace(
        capacity,
        max_concurrency_milli=Band(
            *(1000 * n // needed for n in (blocks.low, blocks.expected, blocks.high))
        ),
        trace=trace(settings, account) if explained else (),
    )


def _groups(settings: SGLangSettings, room: _Room) -> tuple[CacheGroup, ...]:
    """What the layers hold of a page, for a person; `pools` says what a sequence needs."""
    return tuple(
        CacheGroup(
            group.kind,
            group.layers,
            settings.page_tokens,
            0 if group.kind.recurrent else size * settings.page_tokens,
            fixed_blocks=0 if group.kind.recurrent else None,
        )
        for group, size in room.cells.groups
    )
