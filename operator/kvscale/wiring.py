"""The operator put together from its parts: the one place that knows them all."""

import asyncio
import gc
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvscale import handlers
from kvscale.adapters.clock import CompressedClock, SystemClock
from kvscale.adapters.files import Directory
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.cluster import KubernetesCluster
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.kopf_login import connection_info
from kvscale.adapters.kubernetes.lease import KubernetesLease
from kvscale.adapters.prometheus import PrometheusSource
from kvscale.adapters.scrape import ScrapeSource
from kvscale.adapters.sources import PrometheusSettings, ScrapeSettings
from kvscale.app.act import Actor
from kvscale.app.loop import Loop
from kvscale.app.observe import Observer
from kvscale.app.record import Record, encode, name_of
from kvscale.core.spec import Mode
from kvscale.ports import Clock, MetricsSource

ALIVE_ROUNDS = 12
ALIVE_AT_LEAST_SECONDS = 60.0
"""A loop that finished no round for 12 intervals, or a minute if that is longer, is dead."""

COLLECT_AFTER = (50_000, 20, 50)
"""Thresholds of Python's collector of cycles. A round makes tens of thousands of values that live
until the next one and hold no cycle; at the default of 700 the collector walks over all of them
twice a round, which is half of a round's time where there are 10,000 pods (docs/benchmarks.md)."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator is told at its start.

    Attributes:
        namespaces: those of a namespaced install; (): all.
        interval: seconds between rounds.
        mode: limits what every pool may do; None: each pool's own mode.
        sources: names of metrics sources, the default first.
        record: a directory for every round's snapshot and decisions; None: no record.
        liveness: where probes are answered; "": nowhere.
        lease_namespace: of the Lease.
        compression: factor and zero of a compressed clock, for demonstrations; None: real time.
    """

    namespaces: tuple[str, ...]
    interval: float
    mode: Mode | None
    sources: tuple[str, ...]
    prometheus: PrometheusSettings | None
    scrape: ScrapeSettings
    record: Path | None
    liveness: str
    lease_namespace: str
    kubeconfig: str
    context: str
    compression: tuple[float, float] | None


async def run_operator(options: Options) -> None:
    """Put the operator together and run it until it is told to stop.

    Raises:
        ValueError: an option cannot be used; the message names it and the mend.
    """
    gc.set_threshold(*COLLECT_AFTER)
    real = SystemClock()
    clock: Clock = CompressedClock(*options.compression) if options.compression else real
    client = Client(load_configuration(options.kubeconfig, options.context))
    identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    cluster = KubernetesCluster(
        client,
        namespaces=options.namespaces,
        instance=socket.gethostname(),
        now=real.now,
        on_change=lambda _: None,  # kopf's event wakes the loop; caches are read every round
    )
    lease = KubernetesLease(
        client,
        namespace=options.lease_namespace,
        name="kvscale",
        identity=identity,
        now=real.now,
    )
    sources = _sources(options, clock)
    loop = Loop(
        cluster=cluster,
        observer=Observer(cluster, sources, clock, options.mode),
        actor=Actor(cluster, clock),
        clock=clock,
        lease=lease,
        interval=options.interval,
        record=_recorder(options.record),
    )
    probe = handlers.Probe(
        loop,
        max(ALIVE_AT_LEAST_SECONDS, ALIVE_ROUNDS * options.interval),
        now=clock.now,
        started=clock.now(),
    )
    stop = asyncio.Event()

    async def start() -> None:
        cluster.start()

    async def finish() -> None:
        await lease.release()
        for source in sources.values():
            await source.close()
        await asyncio.to_thread(cluster.stop)

    def login() -> dict[str, object]:
        # Read anew each time: a token may have been rotated.
        return connection_info(load_configuration(options.kubeconfig, options.context))

    registry = handlers.build_registry(
        loop,
        probe,
        login=login,
        stop=stop,
        start=start,
        finish=finish,
        scan=not options.namespaces,
    )
    log.info("start", extra={"identity": identity, "namespaces": list(options.namespaces) or "all"})
    await handlers.run(
        registry, namespaces=options.namespaces, liveness=options.liveness, stop=stop
    )


def _sources(options: Options, clock: Clock) -> dict[str, MetricsSource]:
    made: dict[str, MetricsSource] = {}
    for name in options.sources:
        if name == "scrape":
            made[name] = ScrapeSource(options.scrape, clock)
        elif name == "prometheus" and options.prometheus is not None:
            made[name] = PrometheusSource(options.prometheus, clock)
        elif name == "prometheus":
            raise ValueError("--metrics-source prometheus needs --prometheus-url")
        else:
            raise ValueError(f"--metrics-source {name}: give scrape, prometheus, or both")
    if not made:
        raise ValueError("--metrics-source: give scrape, prometheus, or both")
    return made


def _recorder(path: Path | None) -> Callable[[Record], None] | None:
    if path is None:
        return None
    directory = Directory(path)

    def write(record: Record) -> None:
        directory.write(name_of(record), encode(record))

    return write
