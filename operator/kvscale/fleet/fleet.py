"""Simulated engines behind the pods of a cluster in which no model runs.

Somebody outside (a test, or a watch of the API server) says which pods run and which are ready;
the fleet gives each an engine, sends the pool's traffic to the ready ones, and prints their
/metrics. Time comes from the caller: with a clock that runs faster than life, so does the fleet.
Equal pod events and equal traffic give equal numbers, however often anybody looks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvscale.fleet.metrics_text import Exposition, metrics_text
from kvscale.ports import Clock
from kvscale.sim.pool import Pool
from kvscale.sim.request import Finished


@dataclass(frozen=True, slots=True)
class FleetPool:
    """A pool of simulated engines and how they present themselves."""

    pool: Pool
    exposition: Exposition


@dataclass(frozen=True, slots=True)
class FleetPod:
    """A Running pod.

    Attributes:
        pool: key of its pool in the fleet.
        restarts: of its container; another number is another engine, empty again.
    """

    namespace: str
    name: str
    uid: str
    pool: str
    ready: bool
    restarts: int = 0

    @property
    def engine_id(self) -> str:
        """What identifies its engine for all time."""
        return f"{self.pool}/{self.uid}/{self.restarts}"


class Fleet:
    """Simulated engines of several pools, on one clock.

    A pool's second 0 (the first arrival of its traffic may be there) is the fleet's start.
    """

    def __init__(self, pools: Mapping[str, FleetPool], clock: Clock) -> None:
        self._pools = dict(pools)
        self._clock = clock
        self._start = self._now = clock.now()
        self._pods: dict[tuple[str, str], FleetPod] = {}
        self._started: dict[str, float] = {}
        self._opened: set[str] = set()
        self._finished: dict[str, list[Finished]] = {key: [] for key in pools}

    @property
    def pods(self) -> tuple[FleetPod, ...]:
        """The Running pods, by namespace and name."""
        return tuple(self._pods[key] for key in sorted(self._pods))

    def pod(self, namespace: str, name: str) -> FleetPod | None:
        """A Running pod, or None."""
        return self._pods.get((namespace, name))

    def is_starting(self, pod: FleetPod) -> bool:
        """Whether its engine has never been ready yet, so that its port is closed."""
        return pod.engine_id not in self._opened

    def set_pods(self, pods: Iterable[FleetPod]) -> None:
        """Say which pods run from now on. Those that are not named are gone.

        Raises:
            ValueError: a pod of a pool that the fleet does not have.
        """
        self.advance(self._clock.now())
        wanted = {(pod.namespace, pod.name): pod for pod in pods}
        unknown = sorted({pod.pool for pod in wanted.values()} - self._pools.keys())
        if unknown:
            raise ValueError(f"no pool {unknown[0]!r} in the fleet; it has {sorted(self._pools)}")
        before, self._pods = self._pods, wanted
        gone = {pod.engine_id: pod for pod in before.values()}
        coming = []
        for key in sorted(wanted):
            pod = wanted[key]
            known = gone.pop(pod.engine_id, None)
            if known is None:
                coming.append(pod)
            elif known.ready != pod.ready:
                self._set_ready(pod)
        # New engines first, so that the requests of removed ones find them.
        for pod in coming:
            pool = self._pools[pod.pool].pool
            pool.add_pod(pod.engine_id, reported=True)
            self._started[pod.engine_id] = self._now
            if pod.ready:
                self._set_ready(pod)
        for engine_id, pod in gone.items():
            self._pools[pod.pool].pool.remove_pod(engine_id)
            del self._started[engine_id]
            self._opened.discard(engine_id)

    def _set_ready(self, pod: FleetPod) -> None:
        self._pools[pod.pool].pool.set_ready(pod.engine_id, ready=pod.ready)
        if pod.ready:
            self._opened.add(pod.engine_id)

    def advance(self, now: float) -> None:
        """Run every pool until `now`, epoch seconds; an earlier moment changes nothing."""
        self._now = max(self._now, now)
        for key, entry in self._pools.items():
            self._finished[key] += entry.pool.advance(self._now - self._start)

    def take_finished(self, pool: str) -> list[Finished]:
        """What a pool has answered since the last call."""
        finished, self._finished[pool] = self._finished[pool], []
        return finished

    def metrics(self, pod: FleetPod) -> str:
        """The body of a pod's /metrics at the moment to which the fleet was advanced."""
        entry = self._pools[pod.pool]
        return metrics_text(
            entry.pool.gauges(pod.engine_id),
            entry.pool.settings,
            entry.exposition,
            self._started[pod.engine_id],
        )
