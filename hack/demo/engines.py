"""Simulated engines behind the pods of the model's Deployment, fed with the recorded requests."""

from dataclasses import replace
from pathlib import Path

from demo.manifests import NAMESPACE, DemoError, Objects
from kvscale.adapters.kubernetes.cache import Cache
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.reflector import Pace, Reflector
from kvscale.adapters.kubernetes.resources import PODS
from kvscale.app.plan import Plan
from kvscale.core.capacity.step_time import step_time
from kvscale.core.refusal import Refusal
from kvscale.fleet.fleet import Fleet, FleetPod, FleetPool
from kvscale.fleet.metrics_text import Exposition
from kvscale.ports import Clock
from kvscale.records import PodRecord
from kvscale.sim.arrivals import Workload
from kvscale.sim.pool import Pool
from kvscale.sim.request import Finished
from kvscale.sim.router import Router
from kvscale.sim.settings import EngineSettings

STALE_SECONDS = 120.0


def engine_settings(plan: Plan) -> EngineSettings:
    """The engine that really runs: the plan's, at the expected number of blocks.

    The plan's own sizing is on the low end of its band, so the engine will report more.

    Raises:
        DemoError: the device's speed is not known.
    """
    step = step_time(plan.shape, plan.engine, plan.device)
    if isinstance(step, Refusal):
        raise DemoError(step.message)
    return EngineSettings.of(plan.capacity, step)


class Engines:
    """The fleet, and the watch on the pods that tells it what runs.

    Traffic begins when the first pod is ready: nobody sends requests to a service that was never
    up.

    Attributes:
        fleet: the engines; second 0 of its pool is when it was made.
        began_at: epoch second of the demo's clock at which the traffic began; None before.
        device_seconds: GPU seconds that pods have held since then, by the demo's clock.
    """

    def __init__(
        self, kubeconfig: Path, wanted: Objects, workload: Workload, clock: Clock, now: Clock
    ) -> None:
        """Prepare.

        Args:
            kubeconfig: of somebody who may list and watch pods.
            wanted: what was applied.
            workload: played from its second 0 on.
            clock: the demo's.
            now: real time, for the watch.
        """
        self._key = wanted.served_model_name
        self._workload = workload
        self._clock = clock
        plan = wanted.plan
        exposition = Exposition(
            self._key, kv_cache_size_tokens=plan.capacity.kv_cache_size_tokens.expected
        )
        self._pool = Pool(engine_settings(plan), Router())
        self.fleet = Fleet({self._key: FleetPool(self._pool, exposition)}, clock)
        client = Client(load_configuration(str(kubeconfig)))
        self._cache = Cache(PODS, NAMESPACE, now.now, STALE_SECONDS)
        self._watch = Reflector(
            client,
            self._cache,
            PODS.collection(NAMESPACE),
            on_change=lambda: None,
            pace=Pace(),
        )
        self._origin = self._looked_at = clock.now()
        self.began_at: float | None = None
        self.device_seconds = 0.0
        self._devices = plan.devices_per_replica
        self._held = 0

    def start(self) -> None:
        """Begin to watch the pods."""
        self._watch.start()

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()
        self._watch.join(2.0)

    def follow(self) -> None:
        """Bring the fleet up to date with the cluster and with the time."""
        pods = self._cache.records()
        self.fleet.set_pods(_fleet_pod(pod, self._key) for pod in pods if pod.phase == "Running")
        now = self._clock.now()
        if self.began_at is not None:
            self.device_seconds += self._held * (now - self._looked_at)
        elif any(pod.ready for pod in pods):
            self.began_at = self._origin + self._pool.now
            self._pool.offer(
                replace(request, arrived_at=request.arrived_at + self._pool.now)
                for request in self._workload.requests
            )
        self._held = self._devices * sum(1 for pod in pods if pod.node)
        self._looked_at = now

    @property
    def over(self) -> bool:
        """Whether the traffic has been played and everything is answered."""
        totals = self._pool.totals
        return totals.submitted == len(self._workload.requests) and not self._pool.unanswered

    def take_finished(self) -> list[Finished]:
        """What was answered since the last call."""
        return self.fleet.take_finished(self._key)


def _fleet_pod(pod: PodRecord, key: str) -> FleetPod:
    # a pod that is being deleted has left the Service: it finishes what it has
    ready = pod.ready and not pod.deleting
    return FleetPod(pod.namespace, pod.name, pod.uid, key, ready=ready, restarts=pod.restarts)
