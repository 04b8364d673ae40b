"""The run: apply the user's objects, let the operator work, and watch it."""

import asyncio
import json
import shutil
import time
from dataclasses import dataclass

from demo.engines import Engines
from demo.manifests import NAMESPACE, DemoError, Objects
from demo.rounds import Reader, Round
from demo.screen import Row, Screen, open_screen
from demo.stage import OPERATOR_LOG, RECORD, operator
from demo.story import FACTOR, OUTPUT, rate
from kvscale.adapters.clock import CompressedClock, SystemClock
from kvscale.fleet.server import FleetServer
from kvscale.sim.arrivals import Workload
from kvscale.sim.request import Finished
from localcluster import Cluster
from localcluster.processes import Child

LOOK_SECONDS = 0.25
"""Real seconds between two looks at the pods and at the operator's record."""

ROW_SECONDS = 18.0
"""Seconds of the demo's clock between two rows; a change of the count has a row of its own."""

STARTUP_LIMIT_SECONDS = 60.0
"""Real seconds for the first replica to be ready, and after the traffic for what is left."""


@dataclass(frozen=True, slots=True)
class Played:
    """What happened.

    Attributes:
        rounds: the operator's.
        finished: answered requests.
        device_seconds: GPU seconds held while there was traffic.
        began, ended: seconds of the demo's clock at which the traffic began, and the demo ended.
        status: `kubectl get inferencepools -o wide` at the end.
    """

    rounds: tuple[Round, ...]
    finished: tuple[Finished, ...]
    device_seconds: float
    began: float
    ended: float
    status: str


def clear_output() -> None:
    """Remove what an earlier demo has left."""
    OUTPUT.mkdir(exist_ok=True)
    shutil.rmtree(RECORD, ignore_errors=True)
    for name in ("timeline.svg", "timeline.png", "decisions.jsonl", OPERATOR_LOG.name):
        (OUTPUT / name).unlink(missing_ok=True)


async def play(cluster: Cluster, wanted: Objects, workload: Workload) -> Played:
    """Apply pool and Deployment, start the operator, and follow until all is answered.

    Raises:
        DemoError: the operator ended, or nothing became ready.
    """
    zero = time.time()
    clock = CompressedClock(FACTOR, zero)
    for thing in (wanted.server, wanted.pool):
        await asyncio.to_thread(cluster.apply, json.dumps(thing), namespace=NAMESPACE)
    engines = Engines(cluster.kubeconfig, wanted, workload, clock, SystemClock())
    server = FleetServer(engines.fleet, clock)
    await server.start()
    engines.start()
    child = operator(cluster, server.url, zero)
    try:
        child.start()
        run = _Run(engines, Reader(RECORD, zero), child, workload, zero)
        await run.follow()
        status = await asyncio.to_thread(
            cluster.kubectl, "get", "inferencepools.kvscale.io", "-n", NAMESPACE
        )
        return run.played(status)
    finally:
        child.stop(graceful=True)
        engines.stop()
        await server.stop()


class _Run:
    """Follows engines and operator, and keeps what they did."""

    def __init__(
        self, engines: Engines, reader: Reader, child: Child, workload: Workload, zero: float
    ) -> None:
        self._engines = engines
        self._reader = reader
        self._child = child
        self._workload = workload
        self._zero = zero
        self._rounds: list[Round] = []
        self._finished: list[Finished] = []
        self._preempted = 0
        self._shown_at = -ROW_SECONDS

    async def follow(self) -> None:
        """Until the traffic is over and answered.

        Raises:
            DemoError: something that had to happen did not.
        """
        begun = time.monotonic()
        length = STARTUP_LIMIT_SECONDS + self._workload.seconds / FACTOR
        with open_screen() as screen:
            while not self._engines.over:
                self._look(screen)
                waited = time.monotonic() - begun
                if self._began is None and waited > STARTUP_LIMIT_SECONDS:
                    raise DemoError("no replica became ready")
                if waited > length + STARTUP_LIMIT_SECONDS:
                    raise DemoError("the traffic is over, and requests are still unanswered")
                await asyncio.sleep(LOOK_SECONDS)
            self._look(screen)

    def _look(self, screen: Screen) -> None:
        self._engines.follow()
        self._finished += self._engines.take_finished()
        for one in self._reader.new():
            self._rounds.append(one)
            self._preempted += one.preemptions
            if one.write is not None or one.at - self._shown_at >= ROW_SECONDS:
                self._shown_at = one.at
                requests = rate(self._arrivals, one.at)
                screen.show(Row(one, requests, self._preempted))
        if not self._child.running:
            raise DemoError(self._child.report())

    @property
    def _began(self) -> float | None:
        began = self._engines.began_at
        return None if began is None else began - self._zero

    @property
    def _arrivals(self) -> list[float]:
        began = self._began
        if began is None:
            return []
        return [began + request.arrived_at for request in self._workload.requests]

    def played(self, status: str) -> Played:
        """The whole of it."""
        began = self._began
        if began is None or not self._rounds:
            raise DemoError(f"the operator decided nothing: {self._child.report()}")
        return Played(
            rounds=tuple(self._rounds),
            finished=tuple(self._finished),
            device_seconds=self._engines.device_seconds,
            began=began,
            ended=self._rounds[-1].at,
            status=status,
        )
