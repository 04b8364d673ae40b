"""The decision: one pure function from a snapshot and a memory to what shall be written.

The walk: assess each pool by itself, place all of them together, then limit each one's move.
Every rule of it stands in one module beside this one; `reasons` lists what may come out.
"""

import hashlib
from dataclasses import replace

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide import reasons
from kvscale.core.decide.arrivals import FREEZE_SECONDS, fell_together
from kvscale.core.decide.assess import assess
from kvscale.core.decide.assessment import Assessment, NotAssessed
from kvscale.core.decide.bounds import binding
from kvscale.core.decide.conditions import conditions, not_assessed
from kvscale.core.decide.decision import Counts, Decision
from kvscale.core.decide.limits import Limited, limit
from kvscale.core.decide.ownership import awaits_write
from kvscale.core.decide.placement import Placement, place
from kvscale.core.decide.state import PoolState, State
from kvscale.core.decide.stock_out import back_off
from kvscale.core.scaling import Actuation
from kvscale.core.snapshot import Snapshot
from kvscale.core.spec import Mode, PoolKey
from kvscale.core.trace import counted
from kvscale.core.values import Unknown


def decide(snapshot: Snapshot, state: State, now: float) -> tuple[tuple[Decision, ...], State]:
    """Decide for every pool of the snapshot.

    Args:
        snapshot: all that may be looked at.
        state: what the last call returned (an empty State at the start).
        now: epoch seconds; never before the `now` of the last call.

    Returns:
        One decision per pool, in the snapshot's order, and the state for the next call. Nothing
        has been written yet: a write that takes effect is told by `state.record_write`.
    """
    found = [
        assess(pool, state.pools.get(pool.key), now, snapshot.operator_mode)
        for pool in snapshot.pools
    ]
    found = [back_off(f, now) if isinstance(f, Assessment) else f for f in found]
    frozen_until = state.arrivals_frozen_until
    if fell_together((f.memory for f in found), now):
        frozen_until = now + FREEZE_SECONDS
    placements = place(
        [f.wish for f in found if isinstance(f, Assessment)], snapshot.nodes, snapshot.quotas
    )
    decisions: list[Decision] = []
    memories: dict[PoolKey, PoolState] = {}
    for each in found:
        if isinstance(each, NotAssessed):
            decision = _not_assessed(each)
            memory = each.memory
        else:
            placement = placements[each.pool.key]
            decision = _conclude(each, placement, now, frozen=now < frozen_until)
            memory = each.memory
            if decision.counts is not None and decision.counts.desired == each.target.replicas:
                memory = replace(memory, write_error="")  # nothing is left to be written
        decisions.append(decision)
        memories[decision.key] = memory
    return tuple(decisions), State(pools=memories, arrivals_frozen_until=frozen_until)


def _conclude(found: Assessment, placement: Placement, now: float, *, frozen: bool) -> Decision:
    current = found.target.replicas
    limited = limit(found, placement, now, arrivals_frozen=frozen)
    blocked = _blocked(found, now)
    if blocked is not None:
        limited = replace(blocked, steps=limited.steps)
    counts = Counts(
        current=current,
        ready=len(found.supply.ready),
        starting=len(found.supply.starting),
        wanted=found.need.wanted,
        placeable=placement.placeable,
        desired=limited.replicas,
    )
    writes = found.mode is Mode.AUTO and found.spec.scaling.actuation is Actuation.SCALE
    write = limited.replicas if writes and limited.replicas != current else None
    bound = binding(found.need.bounds).name
    reason = limited.reason or found.need.reason
    message = _message(found, limited)
    arithmetic = found.capacity.trace if isinstance(found.capacity, EngineCapacity) else ()
    return Decision(
        key=found.pool.key,
        id=_id(found, limited.replicas, reason, bound),
        counts=counts,
        write=write,
        binding_bound=str(bound),
        reason=reason,
        message=message,
        bounds=found.need.bounds,
        demand=found.load if isinstance(found.load, Unknown) else found.load.demand,
        capacity=found.capacity,
        floor_at_mean=found.declared.floor_at_mean,
        floor_at_peak=found.declared.floor_at_peak,
        conditions=conditions(found, counts, limited),
        trace=(*arithmetic, *found.declared.steps, *found.need.steps, *limited.steps),
    )


def _blocked(found: Assessment, now: float) -> Limited | None:
    """What keeps the count where it is, whatever is needed."""
    current = found.target.replicas
    if found.conflict is not None:
        return Limited(current, found.conflict.reason, found.conflict.message)
    if found.mode is Mode.PAUSED:
        return Limited(current, reasons.PAUSED, "mode Paused: nothing is written")
    if current == 0:
        told = "the target was set to 0 and stays there: raise its replicas to wake it"
        return Limited(0, reasons.SCALED_TO_ZERO, told)
    if found.pool.hold_until is not None and now < found.pool.hold_until:
        left = found.pool.hold_until - now
        told = f"annotation kvscale.io/hold-until holds for {left:.0f} s more"
        return Limited(current, reasons.ON_HOLD, told)
    if awaits_write(found.memory, found.target):
        told = "the last write has not come back from the API server yet"
        return Limited(current, reasons.WRITE_PENDING, told)
    return None


def _message(found: Assessment, limited: Limited) -> str:
    """One sentence a person can act on: the count, the limit if any, and what is needed."""
    told = found.need.message
    if limited.reason == reasons.SCALED_TO_ZERO:
        told = limited.message  # nobody is there to need anything
    elif limited.reason:
        count = counted(limited.replicas, "replica")
        told = f"{count}: {limited.message}. {told[:1].upper()}{told[1:]}"
    if found.mode is Mode.RECOMMEND:
        told += ". Recommend: nothing is written"
    elif found.spec.scaling.actuation is Actuation.EXTERNAL:
        told += ". External: another autoscaler writes it"
    return told


def _not_assessed(found: NotAssessed) -> Decision:
    told = f"{found.pool.uid}/{found.pool.generation}/{found.reason}/{found.message}"
    return Decision(
        key=found.pool.key,
        id=hashlib.sha256(told.encode()).hexdigest()[:12],
        counts=None,
        write=None,
        binding_bound="",
        reason=found.reason,
        message=found.message,
        conditions=not_assessed(found),
    )


def _id(found: Assessment, desired: int, reason: str, bound: str) -> str:
    """Equal for equal outcomes, so that a reader sees a change where there is one."""
    told = f"{found.pool.uid}/{found.pool.generation}/{desired}/{reason}/{bound}"
    return hashlib.sha256(told.encode()).hexdigest()[:12]
