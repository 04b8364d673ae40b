"""Act: validate against the newest caches, then scale, write status, post events.

Nothing is retried here. A write that does not take effect is remembered, and the next tick decides
anew on what is there then.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvscale.api.status import build_status
from kvscale.api.status_change import write_due
from kvscale.app.notes import notes_for
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import ScalingEvent, State, record_write
from kvscale.core.snapshot import PoolKey, PoolSnapshot, Snapshot
from kvscale.core.values import Unknown
from kvscale.ports import (
    Clock,
    Cluster,
    ClusterView,
    ScaleWrite,
    WorkloadRef,
    WriteOutcome,
    WriteResult,
)

CONCURRENT_WRITES = 16
"""Writes in flight at once: an API server's fair share, and far below its limits."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Actor:
    """Carries decisions out.

    Attributes:
        statuses: the status of each pool as it was last applied, to see whether a write is due.
        decided: the last decision of each pool, to see what changed.
    """

    cluster: Cluster
    clock: Clock
    statuses: dict[PoolKey, Mapping[str, Any]] = field(default_factory=dict)
    decided: dict[PoolKey, Decision] = field(default_factory=dict)

    async def act(self, snapshot: Snapshot, decisions: tuple[Decision, ...], state: State) -> State:
        """Carry out the decisions; the state with what took effect."""
        limit = asyncio.Semaphore(CONCURRENT_WRITES)
        view = self.cluster.view()
        pools = {pool.key: pool for pool in snapshot.pools}
        stored = {pool.key: pool.status for pool in view.pools}

        async def scale(decision: Decision) -> WriteResult | None:
            async with limit:
                return await self._scale(decision, pools[decision.key], view)

        due = [decision for decision in decisions if decision.write is not None]
        for decision, result in zip(due, await asyncio.gather(*map(scale, due)), strict=True):
            state = self._scaled(decision, pools[decision.key], result, state)

        async def report(decision: Decision) -> None:
            async with limit:
                await self._report(decision, pools[decision.key], snapshot, state, stored)

        await asyncio.gather(*map(report, decisions))
        for key in set(self.statuses) - set(stored):
            self.statuses.pop(key, None)
            self.decided.pop(key, None)
        return state

    async def _scale(
        self, decision: Decision, pool: PoolSnapshot, view: ClusterView
    ) -> WriteResult | None:
        """Write one replica count, if the world is still the one that was decided upon."""
        target = pool.target
        if decision.write is None or decision.counts is None or isinstance(target, Unknown):
            return None
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
        stored: Mapping[PoolKey, Mapping[str, Any]],
    ) -> None:
        """Apply the status when it says something new, and post events about what changed."""
        key = decision.key
        if key not in stored:
            return  # deleted meanwhile
        previous = self.statuses.get(key, stored[key])
        status = build_status(
            decision,
            pool=pool,
            memory=state.pools[key],
            operator_mode=snapshot.operator_mode,
            previous=previous,
            now=self.clock.now(),
        )
        if write_due(previous, status):
            result = await self.cluster.apply_status(key, status)
            if result.outcome is WriteOutcome.APPLIED:
                self.statuses[key] = status
            elif result.outcome is not WriteOutcome.NOT_FOUND:
                log.warning("status", extra={"pool": str(key), "error": result.message})
        for note in notes_for(self.decided.get(key), decision, pool.uid):
            await self.cluster.emit(note)
        self.decided[key] = decision
