"""Act: validate against the newest caches, then scale, write status, post events.

Nothing is retried here. A write that does not take effect is remembered, and the next tick decides
anew on what is there then.
"""

import asyncio
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvscale.api.status import build_status
from kvscale.api.status_change import RUNNING_SECONDS, write_due
from kvscale.app.notes import notes_for
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import PoolState, ScalingEvent, State, record_write
from kvscale.core.snapshot import PoolSnapshot, Snapshot
from kvscale.core.spec import PoolKey
from kvscale.core.values import Unknown
from kvscale.ports import Clock, Cluster, ClusterView, ScaleWrite, WriteOutcome, WriteResult
from kvscale.records import PoolObject, WorkloadRef

CONCURRENT_WRITES = 16
"""Writes in flight at once: an API server's fair share, and far below its limits."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Actor:
    """Carries decisions out.

    Attributes:
        statuses: the status of each pool as it was last applied, to see whether a write is due.
        decided: the last decision of each pool, to see what changed.
        looked: when a pool's status was last compared, and at what: a status is costly to build,
            and between two changes it need not be.
        uids: of the pools that all this is about: another uid is another pool.
    """

    cluster: Cluster
    clock: Clock
    statuses: dict[PoolKey, Mapping[str, Any]] = field(default_factory=dict)
    decided: dict[PoolKey, Decision] = field(default_factory=dict)
    looked: dict[PoolKey, tuple[float, object]] = field(default_factory=dict)
    uids: dict[PoolKey, str] = field(default_factory=dict)

    async def act(self, snapshot: Snapshot, decisions: tuple[Decision, ...], state: State) -> State:
        """Carry out the decisions; the state with what took effect."""
        limit = asyncio.Semaphore(CONCURRENT_WRITES)
        view = self.cluster.view()
        pools = {pool.key: pool for pool in snapshot.pools}
        there = {pool.key: pool for pool in view.pools}
        self._forget_gone(there)

        async def scale(decision: Decision) -> WriteResult | None:
            async with limit:
                return await self._scale(decision, pools[decision.key], there, view)

        due = [decision for decision in decisions if decision.write is not None]
        written: set[PoolKey] = set()
        for decision, result in zip(due, await asyncio.gather(*map(scale, due)), strict=True):
            state = self._scaled(decision, pools[decision.key], result, state)
            if result is not None and result.outcome is WriteOutcome.APPLIED:
                written.add(decision.key)

        async def report(decision: Decision) -> None:
            async with limit:
                pool = pools[decision.key]
                now = there.get(pool.key)
                if now is None or now.uid != pool.uid:
                    return  # deleted meanwhile
                try:
                    await self._emit(decision, pool, written=pool.key in written)
                    await self._report(decision, pool, snapshot, state, now.status)
                except Exception:
                    # What was written has to be remembered, and the other pools are to be told.
                    log.exception("report", extra={"pool": str(pool.key)})

        await asyncio.gather(*map(report, decisions))
        return state

    def forget(self) -> None:
        """Forget what was told: somebody else may have told something else since."""
        self.statuses.clear()
        self.decided.clear()
        self.looked.clear()
        self.uids.clear()

    def _forget_gone(self, there: Mapping[PoolKey, PoolObject]) -> None:
        """Forget pools that are gone, also where another has taken the name."""
        for key, uid in list(self.uids.items()):
            if key not in there or there[key].uid != uid:
                for kept in (self.statuses, self.decided, self.looked, self.uids):
                    kept.pop(key, None)
        self.uids.update((key, pool.uid) for key, pool in there.items())

    async def _emit(self, decision: Decision, pool: PoolSnapshot, *, written: bool) -> None:
        for note in notes_for(self.decided.get(pool.key), decision, pool.uid, written=written):
            await self.cluster.emit(note)
        self.decided[pool.key] = decision

    async def _scale(
        self,
        decision: Decision,
        pool: PoolSnapshot,
        there: Mapping[PoolKey, PoolObject],
        view: ClusterView,
    ) -> WriteResult | None:
        """Write one replica count, if the world is still the one that was decided upon."""
        target = pool.target
        if decision.write is None or decision.counts is None or isinstance(target, Unknown):
            return None
        asks = there.get(pool.key)
        if asks is None or (asks.uid, asks.generation) != (pool.uid, pool.generation):
            return WriteResult(WriteOutcome.CONFLICT, "the pool changed while it was decided")
        ref = WorkloadRef(target.kind, pool.key.namespace, target.name)
        now = view.workloads.get(ref)
        if now is None or now.uid != target.uid or now.replicas != target.replicas:
            return WriteResult(WriteOutcome.CONFLICT, "the target changed while it was decided")
        return await self.cluster.scale(
            ScaleWrite(ref, decision.write, target.replicas, target.resource_version)
        )

    def _scaled(
        self, decision: Decision, pool: PoolSnapshot, result: WriteResult | None, state: State
    ) -> State:
        if result is None or decision.write is None or isinstance(pool.target, Unknown):
            return state
        before = pool.target.replicas
        applied = result.outcome is WriteOutcome.APPLIED
        log.info(
            "scale",
            extra={
                "pool": str(decision.key),
                "before": before,
                "after": decision.write,
                "outcome": str(result.outcome),
                "reason": decision.reason,
            },
        )
        if result.outcome is WriteOutcome.CONFLICT:
            return state  # the world moved: the next tick decides on what is there then
        event = ScalingEvent(self.clock.now(), before, decision.write, decision.reason)
        error = "" if applied else f"scale to {decision.write}: {result.outcome}: {result.message}"
        return record_write(state, decision.key, event, pool.target.resource_version, error)

    async def _report(
        self,
        decision: Decision,
        pool: PoolSnapshot,
        snapshot: Snapshot,
        state: State,
        stored: Mapping[str, Any],
    ) -> None:
        """Apply the status when it says something new."""
        key, memory = decision.key, state.pools[decision.key]
        now, shape = self.clock.now(), _outline(decision, pool, memory)
        seen_at, seen = self.looked.get(key, (0.0, None))
        if seen == shape and now - seen_at < RUNNING_SECONDS:
            return
        previous = self.statuses.get(key, stored)
        status = build_status(
            decision,
            pool=pool,
            memory=memory,
            operator_mode=snapshot.operator_mode,
            previous=previous,
            now=now,
        )
        # At the start all pools are new in the same round; they shall not be due together for ever.
        self.looked[key] = (now if key in self.looked else now - _head_start(key), shape)
        if write_due(previous, status):
            result = await self.cluster.apply_status(key, status)
            if result.outcome is WriteOutcome.APPLIED:
                self.statuses[key] = status
            elif result.outcome is not WriteOutcome.NOT_FOUND:
                self.looked.pop(key)  # the next round tries again
                log.warning("status", extra={"pool": str(key), "error": result.message})


def _head_start(key: PoolKey) -> float:
    """Seconds by which a pool's second look comes early: its own, and the same every time."""
    return zlib.crc32(str(key).encode()) % RUNNING_SECONDS


def _outline(decision: Decision, pool: PoolSnapshot, memory: PoolState) -> object:
    """What makes a status worth a write at once; `status_change` has the last word on it."""
    return (
        decision.id,
        decision.counts and (decision.counts.current, decision.counts.desired),
        [(condition.type, condition.status, condition.reason) for condition in decision.conditions],
        pool.generation,
        pool.hold_until,
        pool.freeze,
        pool.contradictions,
        (memory.last_written, memory.last_written_at, memory.foreign, memory.had_data),
        memory.scalings,
    )
