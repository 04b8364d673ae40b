"""The loop: observe, decide, act, every few seconds and at once when a pool changed.

One loop over all pools, so that pools that share GPUs are decided together.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvscale.api.memory import read_memory
from kvscale.app.act import Actor
from kvscale.app.observe import NotReady, Observer
from kvscale.app.record import Record
from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import State
from kvscale.core.snapshot import Snapshot
from kvscale.core.spec import PoolKey
from kvscale.core.values import Unknown
from kvscale.ports import Clock, Cluster, Lease

MIN_PAUSE_SECONDS = 0.2
"""Changes that come in a burst are decided together, and never more often than this."""

UNSYNCED_SECONDS = 600.0
"""Caches incomplete for so long may be our own fault: the probe then asks for a restart."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loop:
    """The operator's loop.

    Attributes:
        interval: seconds between rounds.
        record: called with every round, before anything is written.
        state: the memory; it starts from what the pools' status kept.
        last_finished: epoch seconds of the last round that went through, for the liveness probe.
        last_problem: why the last round did not; "" if it did.
    """

    cluster: Cluster
    observer: Observer
    actor: Actor
    clock: Clock
    lease: Lease
    interval: float = 5.0
    record: Callable[[Record], None] | None = None
    state: State = field(default_factory=State)
    last_finished: float | None = None
    last_problem: str = ""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _unsynced_since: float | None = None

    def wake(self) -> None:
        """Something changed that should not wait for the interval. Call on the event loop."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run rounds until `stop` is set. A round that fails is told and does not end the loop."""
        while not stop.is_set():
            started = self.clock.now()
            self._wake.clear()
            try:
                await self.tick()
            except Exception:
                # Whatever it was, the other rounds go on: a dead loop scales nobody.
                self.last_problem = "the round failed: see the log"
                log.exception("tick")
            spent = self.clock.now() - started
            await self._pause(max(MIN_PAUSE_SECONDS, self.interval - spent), stop)

    async def tick(self) -> tuple[Decision, ...] | NotReady | Unknown:
        """One round: what was decided, or why nothing was."""
        held = await self.lease.acquire()
        if isinstance(held, Unknown):
            return self._without_lease(held)
        snapshot = await self.observer.snapshot()
        if isinstance(snapshot, NotReady):
            self._stand_by(snapshot)
            return snapshot
        before = self._restored(snapshot)
        now = self.clock.now()
        decisions, state = decide(snapshot, before, now)
        if self.record is not None:
            self.record(Record(snapshot, before, now, decisions))
        held = await self.lease.acquire()
        if isinstance(held, Unknown):
            return self._without_lease(held)  # looking took so long that another writes by now
        self.state = await self.actor.act(snapshot, decisions, state)
        self.last_finished = self.clock.now()
        self.last_problem = ""
        self._unsynced_since = None
        return decisions

    def _stand_by(self, found: NotReady) -> None:
        """Wait for the caches: an API server that is away is no fault that a restart mends."""
        now = self.clock.now()
        self.last_problem = f"not synced: {', '.join(found.missing)}"
        if self._unsynced_since is None:
            self._unsynced_since = now
        if now - self._unsynced_since < UNSYNCED_SECONDS:
            self.last_finished = now

    def _without_lease(self, why: Unknown) -> Unknown:
        """Leave it to whoever holds the lease, and know nothing of what comes before our turn."""
        self.state = State()
        self.actor.forget()
        self.last_problem = why.message or why.reason
        self.last_finished = self.clock.now()  # standing by is healthy
        return why

    def _restored(self, snapshot: Snapshot) -> State:
        """The memory, with what the status of pools not seen before has kept."""
        stored = {pool.key: pool.status for pool in self.cluster.view().pools}
        fresh = {
            pool.key: read_memory(stored.get(pool.key, {}), pool.uid)
            for pool in snapshot.pools
            if self._is_new(pool.key, pool.uid)
        }
        return replace(self.state, pools={**self.state.pools, **fresh}) if fresh else self.state

    def _is_new(self, key: PoolKey, uid: str) -> bool:
        memory = self.state.pools.get(key)
        return memory is None or memory.uid != uid

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Wait for the interval, or until something wakes the loop."""
        waits = [
            asyncio.ensure_future(self.clock.sleep(seconds)),
            asyncio.ensure_future(self._wake.wait()),
            asyncio.ensure_future(stop.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        woken = self._wake.is_set() and not stop.is_set()
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        if woken:
            await self.clock.sleep(MIN_PAUSE_SECONDS)
