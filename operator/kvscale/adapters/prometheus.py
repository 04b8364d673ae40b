"""Metrics from a Prometheus server: one query for every pod of every pool.

The query returns the engines' series and, beside them, when each pod was last sampled. Evaluated
in one piece, it gives values and times that belong together, and its text does not grow with pods
or pools. Only ages are taken from the server (its own clock less its own timestamps), so a skew
between the two machines cancels out.
"""

import asyncio
import ipaddress
import re
import threading
from collections.abc import Mapping, Sequence

from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from kvscale.adapters.prometheus_http import (
    AbandonedError,
    TokenError,
    TooLargeError,
    instant_query,
)
from kvscale.adapters.prometheus_query import PodName, ScrapedPod, by_pod, promql
from kvscale.adapters.sources import PrometheusSettings
from kvscale.core.engines.metrics import read_pod
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.values import Known, Unknown
from kvscale.ports import Clock, MetricsTarget

Pods = Mapping[PodName, tuple[ScrapedPod, ...]]

_STATUS = re.compile(r"HTTP Status Code (\d{3})")


class TooManySeriesError(Exception):
    """The answer has more series than the configured limit."""


class PrometheusSource:
    """A MetricsSource that asks one Prometheus server."""

    def __init__(self, settings: PrometheusSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._promql = promql(settings.matchers)
        self._running: asyncio.Task[Pods] | None = None

    async def collect(
        self, targets: Sequence[MetricsTarget]
    ) -> Mapping[str, Known[PodMetrics] | Unknown]:
        """The newest samples of all pods by uid, from one query."""
        if not targets:
            return {}
        asked_at = self._clock.now()
        pods = await self._ask()
        if isinstance(pods, Unknown):
            return {target.uid: pods for target in targets}
        return {
            target.uid: self._of_target(
                target, pods.get((target.namespace, target.pod), ()), asked_at
            )
            for target in targets
        }

    async def close(self) -> None:
        """Nothing is kept open between two rounds."""

    async def _ask(self) -> Pods | Unknown:
        """The answer, within the time limit.

        A thread cannot be ended from outside: one that is late is told to give up, and until it
        has done so no other is started.
        """
        limit = self._settings.timeout_seconds
        if self._running is not None and not self._running.done():
            return Unknown("PrometheusTimeout", "the previous query has not ended yet")
        give_up = threading.Event()
        self._running = asyncio.create_task(asyncio.to_thread(self._fetch, give_up))
        # Nobody hears a query that ends too late; its error is taken here, or it would be logged.
        self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            done, _ = await asyncio.wait({self._running}, timeout=limit)
        finally:
            give_up.set()
        if not done:
            return self._too_late()
        error = self._running.exception()
        return self._running.result() if error is None else self._why(error)

    def _fetch(self, give_up: threading.Event) -> Pods:
        """Ask and sort the answer; runs in a thread."""
        elements = instant_query(self._settings, self._promql, give_up)
        if len(elements) > self._settings.max_series:
            raise TooManySeriesError
        return by_pod(elements, self._settings)

    def _why(self, error: BaseException) -> Unknown:
        """An error as the reason that there are no metrics: its class or code, no text of it.

        Raises:
            BaseException: `error` itself, when it is a mistake of ours.
        """
        settings = self._settings
        match error:
            case PrometheusApiClientException():
                status = _STATUS.match(str(error))
                why = "PrometheusHTTPError", f"HTTP {status[1] if status else 'error'}"
            case TooManySeriesError():
                why = "TooManySeries", f"over {settings.max_series}; narrow the source by matchers"
            case TooLargeError():
                why = "PrometheusTooLarge", f"over {settings.max_body_bytes} bytes"
            case TokenError():
                why = "PrometheusToken", "the bearer token file holds no readable token"
            case HTTPTimeoutError() if not isinstance(error, NewConnectionError):
                return self._too_late()
            case HTTPError() | OSError() | AbandonedError():
                why = "PrometheusUnreachable", type(error).__name__
            case ValueError() | KeyError() | TypeError() | AttributeError():
                why = "PrometheusMalformed", "the answer is not the result of a query"
            case _:
                raise error
        return Unknown(*why)

    def _too_late(self) -> Unknown:
        limit = self._settings.timeout_seconds
        return Unknown("PrometheusTimeout", f"no complete answer within {limit:g} s")

    def _of_target(
        self, target: MetricsTarget, scrapes: Sequence[ScrapedPod], asked_at: float
    ) -> Known[PodMetrics] | Unknown:
        """The newest scrape that is of this very pod, not of an earlier one of its name."""
        settings = self._settings
        if not scrapes:
            return Unknown(
                "NoEngineSeries",
                "Prometheus has no usage series of an engine with"
                f" {settings.namespace_label}={target.namespace!r} and"
                f" {settings.pod_label}={target.pod!r}: have the pod scraped (PodMonitor), start"
                " vLLM without --disable-log-stats and SGLang with --enable-metrics, or correct the"
                " source's label names",
            )
        if settings.instance_label:
            if not target.pod_ip:
                return Unknown("NoPodIP", "the pod has no address yet")
            scrapes = [one for one in scrapes if _may_be(one.address, target.pod_ip)]
        if not scrapes:
            return Unknown(
                "OtherInstance",
                f"the series under this pod's name have another address in"
                f" {settings.instance_label!r}; where that is meant so, do not compare it",
            )
        newest = max(scrapes, key=lambda one: one.sampled_at)
        pod = read_pod(newest.series, target.served_model_name)
        if isinstance(pod, Unknown):
            return pod
        return Known(pod, at=asked_at - newest.age_seconds, stamp=newest.sampled_at)


def _may_be(address: str | None, pod_ip: str) -> bool:
    """Whether a scrape of that address can be one of the pod; a host name proves nothing."""
    try:
        return address is None or address == str(ipaddress.ip_address(pod_ip))
    except ValueError:
        return False
