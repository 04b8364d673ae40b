"""The run: apply the user's objects, let the operator work, and watch it."""

import asyncio
import json
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from demo.engines import Engines
from demo.manifests import NAMESPACE, DemoError, Objects
from demo.picture import rate
from demo.rounds import Reader, Round
from demo.screen import Row, open_screen
from demo.stage import OPERATOR_LOG, RECORD, operator
from demo.story import FACTOR, OUTPUT
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
        run = _Run(engines, Reader(RECORD, zero), child, workload, clock, zero)
        await run.follow()
        status = await asyncio.to_thread(
            cluster.kubectl, "get", "inferencepools.kvscale.io", "-n", NAMESPACE
        )
        return run.played(status)
    finally:
        child.stop(graceful=True)
        engines.stop()
        await server.stop()
