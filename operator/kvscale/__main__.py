"""Wiring: the command line, and the operator put together from its parts."""

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import kopf
import typer

from kvscale import handlers
from kvscale.adapters.clock import CompressedClock, SystemClock
from kvscale.adapters.files import Directory
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.cluster import KubernetesCluster
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.kopf_login import connection_info
from kvscale.adapters.kubernetes.lease import KubernetesLease
from kvscale.adapters.logs import configure_logging
from kvscale.adapters.prometheus import PrometheusSource
from kvscale.adapters.scrape import ScrapeSource
from kvscale.adapters.sources import PrometheusSettings, ScrapeSettings
from kvscale.app.act import Actor
from kvscale.app.loop import Loop
from kvscale.app.observe import Observer
from kvscale.app.record import Record, encode, name_of
from kvscale.cli.app import app
from kvscale.cli.errors import fail
from kvscale.cli.output import run
from kvscale.core.spec import Mode
from kvscale.ports import Clock, MetricsSource

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

ALIVE_ROUNDS = 12
ALIVE_AT_LEAST_SECONDS = 60.0
"""A loop that finished no round for 12 intervals, or a minute if that is longer, is dead."""


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's options, as the command line gives them."""

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


@app.command()
def operator(
    *,
    namespaces: Annotated[
        str, typer.Option(help="Watch these namespaces alone, comma-separated; default: all.")
    ] = "",
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between rounds.")] = 5.0,
    mode: Annotated[
        Mode | None, typer.Option(help="Limit what every pool may do: Recommend, Paused.")
    ] = None,
    metrics_source: Annotated[
        str, typer.Option(help="Sources that pools may name; the first is the default.")
    ] = "scrape",
    prometheus_url: Annotated[str, typer.Option(help="Of a Prometheus server.")] = "",
    prometheus_bearer_token_file: Annotated[Path | None, typer.Option()] = None,
    prometheus_ca_file: Annotated[Path | None, typer.Option()] = None,
    prometheus_namespace_label: Annotated[
        str, typer.Option(help="Target label with the pod's namespace.")
    ] = "namespace",
    prometheus_pod_label: Annotated[
        str, typer.Option(help="Target label with the pod's name.")
    ] = "pod",
    prometheus_instance_label: Annotated[
        str, typer.Option(help="Target label with the pod's address; empty: not compared.")
    ] = "instance",
    prometheus_matchers: Annotated[
        str, typer.Option(help="Further label equalities: NAME=VALUE, comma-separated.")
    ] = "",
    scrape_url_template: Annotated[
        str, typer.Option(help="With {ip}, {port}, {path}, {namespace}, {pod}.")
    ] = "http://{ip}:{port}{path}",
    record: Annotated[
        Path | None, typer.Option(help="Write every round's snapshot and decisions here.")
    ] = None,
    liveness: Annotated[
        str, typer.Option(help="Where to answer probes.")
    ] = "http://0.0.0.0:8080/healthz",
    lease_namespace: Annotated[
        str, typer.Option(help="Of the Lease; default: the operator's own namespace.")
    ] = "",
    kubeconfig: Annotated[str, typer.Option(envvar="KUBECONFIG", help="A kubeconfig file.")] = "",
    context: Annotated[str, typer.Option(help="A context of the kubeconfig.")] = "",
    log_format: Annotated[str, typer.Option(help="json or text.")] = "json",
    compress_time: Annotated[
        str, typer.Option(hidden=True, help="FACTOR@EPOCH: the loop's time, for demonstrations.")
    ] = "",
) -> None:
    """Run the operator against a cluster."""
    configure_logging(log_format)
    try:
        options = Options(
            namespaces=tuple(name for name in namespaces.split(",") if name),
            interval=interval,
            mode=mode,
            sources=tuple(name for name in metrics_source.split(",") if name),
            prometheus=PrometheusSettings(
                prometheus_url,
                bearer_token_file=prometheus_bearer_token_file,
                ca_file=prometheus_ca_file,
                namespace_label=prometheus_namespace_label,
                pod_label=prometheus_pod_label,
                instance_label=prometheus_instance_label,
                matchers=_matchers(prometheus_matchers),
            )
            if prometheus_url
            else None,
            scrape=ScrapeSettings(scrape_url_template),
            record=record,
            liveness=liveness,
            lease_namespace=lease_namespace or _own_namespace(),
            kubeconfig=kubeconfig,
            context=context,
            compression=_compression(compress_time),
        )
        asyncio.run(run_operator(options))
    except ValueError as error:
        fail(str(error))


async def run_operator(options: Options) -> None:
    """Put the operator together and run it until it is told to stop.

    Raises:
        ValueError: an option cannot be used; the message names it and the mend.
    """
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

    def login() -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            **connection_info(load_configuration(options.kubeconfig, options.context))
        )

    registry = handlers.build_registry(
        loop,
        probe,
        login=login,
        stop=stop,
        start=start,
        finish=finish,
        scan=not options.namespaces,
    )
    logging.getLogger("kvscale").info(
        "start", extra={"identity": identity, "namespaces": list(options.namespaces) or "all"}
    )
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


def _matchers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [item.partition("=") for item in text.split(",") if item]
    if any(not sign for _, sign, _ in pairs):
        raise ValueError(f"--prometheus-matchers {text}: give NAME=VALUE, comma-separated")
    return tuple((name, value) for name, _, value in pairs)


def _own_namespace() -> str:
    """The namespace that the operator runs in, or `default` outside of a cluster."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="ascii").strip()
    except OSError:
        return os.environ.get("POD_NAMESPACE", "default")


def _compression(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    factor, _, zero = text.partition("@")
    try:
        return float(factor), float(zero)
    except ValueError:
        raise ValueError(f"--compress-time {text}: give FACTOR@EPOCH") from None


def main() -> None:
    """The `kvscale` command."""
    sys.exit(run(app))


if __name__ == "__main__":
    main()
