"""The `kvscale` command, with the operator among its sub-commands."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kvscale.cli.app import COMMANDS, app
from kvscale.cli.errors import fail
from kvscale.cli.output import run
from kvscale.core.spec import Mode

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

COMMANDS["operator"] = __name__


def operator(
    *,
    namespaces: Annotated[
        str, typer.Option(help="Watch these namespaces alone, comma-separated; default: all.")
    ] = "",
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between rounds.")
    ] = 5.0,
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
    # kopf and the Kubernetes client take a second to load, and no other command needs them.
    import asyncio  # noqa: PLC0415 - see above

    from kvscale.adapters.logs import configure_logging  # noqa: PLC0415 - see above
    from kvscale.adapters.sources import (  # noqa: PLC0415 - see above
        PrometheusSettings,
        ScrapeSettings,
    )
    from kvscale.wiring import Options, run_operator  # noqa: PLC0415 - see above

    gc.enable()
    try:
        configure_logging(log_format)
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
            liveness=_endpoint(liveness),
            lease_namespace=lease_namespace or _own_namespace(),
            kubeconfig=kubeconfig,
            context=context,
            compression=_compression(compress_time),
        )
        asyncio.run(run_operator(options))
    except ValueError as error:
        fail(str(error))


def _matchers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [item.partition("=") for item in text.split(",") if item]
    if any(not sign for _, sign, _ in pairs):
        raise ValueError(f"--prometheus-matchers {text}: give NAME=VALUE, comma-separated")
    return tuple((name, value) for name, _, value in pairs)


def _endpoint(url: str) -> str:
    """Where probes are answered; "" for nowhere."""
    try:
        parts = urlsplit(url)
        usable = not url or (parts.scheme == "http" and parts.hostname and parts.port)
    except ValueError:  # a port that is none
        usable = False
    if not usable:
        raise ValueError(f"--liveness {url}: give http://ADDRESS:PORT/PATH, or nothing for none")
    return url


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
    # pydantic asks every installed distribution for plugins, which takes a tenth of a second.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # A command ends before garbage is worth looking for; loading modules makes a lot to look at.
    gc.disable()
    sys.exit(run(app))


if __name__ == "__main__":
    main()
