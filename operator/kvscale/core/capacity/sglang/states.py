"""The pool of recurrent states of an SGLang server: its slots, and what it takes of the budget.

A hybrid model splits its budget: `--mamba-full-memory-ratio` r gives states r / (1 + r) of it,
unless their number is stated. With speculation each running request also keeps a state per draft
token. Source: sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py, _handle_max_mamba_cache, and
its forerunners from 0.5.4 on.
"""

from dataclasses import dataclass

from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.sglang.rules import SGLangRules

RATIO_MILLI = 900
"""Default of `--mamba-full-memory-ratio`."""

UNLIMITED_SLOTS = 512
"""Slots without radix cache and without a limit of requests, before 0.5.9."""


@dataclass(frozen=True, slots=True)
class StateDemand:
    """What decides the pool.

    Attributes:
        slot_bytes: one state of every recurrent layer of the stage, on one rank.
        slots_per_request: see `SGLangRules.slots_per_request`.
        requests: `--max-running-requests` per engine; None: not stated.
        radix: whether the radix cache is on.
        drafts: speculative tokens per step.
    """

    slot_bytes: int
    slots_per_request: int
    requests: int | None
    radix: bool
    drafts: int = 0


@dataclass(frozen=True, slots=True)
class StatePool:
    """The pool.

    Attributes:
        slots: states that it holds.
        bytes: that it takes, those of drafts included.
    """

    slots: int
    bytes: int


def state_share(options: SGLangOptions, kv_bytes: int) -> int:
    """Bytes of states beside so many of KV, where the ratio decides."""
    ratio = RATIO_MILLI if options.mamba_ratio_milli is None else options.mamba_ratio_milli
    return kv_bytes * ratio // 1000


def state_pool(
    rules: SGLangRules, options: SGLangOptions, demand: StateDemand, budget: int
) -> StatePool:
    """The pool within a budget of bytes for states and KV."""
    each, drafts = demand.slot_bytes, demand.drafts
    pad = rules.state_padding
    joint = rules.version >= (0, 5, 13)
    between = 0
    if drafts and not joint and rules.version >= (0, 5, 7) and demand.requests:
        between = each * demand.requests * drafts
    ratio = RATIO_MILLI if options.mamba_ratio_milli is None else options.mamba_ratio_milli
    share = (budget - between) * ratio // (1000 + ratio)
    if options.max_mamba_cache_size is not None:
        slots = options.max_mamba_cache_size
    elif not demand.radix and (demand.requests is not None or rules.version < (0, 5, 9)):
        slots = demand.requests or UNLIMITED_SLOTS
    elif drafts and joint:
        per_request = demand.slots_per_request
        per_slot = each * (per_request + drafts) // per_request
        slots = (share - pad * each * (1 + drafts)) // per_slot
    elif rules.version < (0, 5, 7):
        slots = share // (each * (1 + drafts))
    else:
        slots = (share - pad * each) // each
    slots = max(0, slots)
    if drafts and joint:
        running = slots // demand.slots_per_request
        if demand.requests is not None:
            running = min(running, demand.requests)
        between = each * (running + pad) * drafts
    elif drafts and rules.version < (0, 5, 7):
        between = each * slots * drafts
    return StatePool(slots, (slots + pad) * each + between)
