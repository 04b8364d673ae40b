"""Metrics by direct scrape: one GET to each pod, bounded in time, number, size and reach.

What a pod answers is not trusted (no redirect is followed, nothing of it reaches a message), and
neither is where it says it lives: an address that would turn the operator into a proxy to its own
node or to a cloud's metadata service is refused before a connection is made.
"""

import asyncio
import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

import aiohttp
from yarl import URL

from kvscale.adapters.metrics_text import parse
from kvscale.adapters.sources import ScrapeSettings
from kvscale.core.engines.metrics import read_pod
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.values import Known, Unknown
from kvscale.ports import Clock, MetricsTarget

_PATH = re.compile(r"/[A-Za-z0-9._~/-]{0,255}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_HIGHEST_PORT = 65_535
_OK = 200
_REDIRECTS = range(300, 400)
_CHUNK_BYTES = 65_536
_TIMEOUT_REASON = "ScrapeTimeout"
_METADATA = frozenset(
    ipaddress.ip_address(text)
    # AWS over IPv6, Alibaba Cloud, Azure; the others live on link-local 169.254.169.254.
    for text in ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)


class ScrapeSource:
    """A MetricsSource that asks the pods themselves; every good answer is a new sample."""

    def __init__(self, settings: ScrapeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._hung: frozenset[str] = frozenset()

    async def collect(
        self, targets: Sequence[MetricsTarget]
    ) -> Mapping[str, Known[PodMetrics] | Unknown]:
        """The samples of all pods by uid, within the deadline.

        Pods that hung when last asked come last, so that they cannot starve the others.
        """
        limit = self._settings.deadline_seconds
        found: dict[str, Known[PodMetrics] | Unknown] = {}
        queue = iter(sorted(targets, key=lambda target: target.uid in self._hung))
        workers = [
            asyncio.create_task(self._work(queue, found))
            for _ in range(min(self._settings.concurrency, len(targets)))
        ]
        try:
            if workers:
                await asyncio.wait(workers, timeout=limit)
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):  # a mistake of ours: never pass it off as a late pod
                raise end
        late = Unknown("ScrapeDeadline", f"not answered when the round ended after {limit:g} s")
        answers = {target.uid: found.get(target.uid, late) for target in targets}
        self._hung = frozenset(
            uid
            for uid, pod in answers.items()
            if isinstance(pod, Unknown)
            and (pod.reason == _TIMEOUT_REASON or (pod is late and uid in self._hung))
        )
        return answers

    async def close(self) -> None:
        """Close the connections; the source cannot be used afterwards."""
        if self._session is not None:
            await self._session.close()

    async def _work(
        self, queue: Iterator[MetricsTarget], found: dict[str, Known[PodMetrics] | Unknown]
    ) -> None:
        """Take targets until none is left."""
        for target in queue:
            found[target.uid] = await self._one(target)

    async def _one(self, target: MetricsTarget) -> Known[PodMetrics] | Unknown:
        url = target_url(self._settings.url_template, target)
        body = url if isinstance(url, Unknown) else await self._get(url)
        if isinstance(body, Unknown):
            return body
        at = self._clock.now()
        series = parse(body)
        if isinstance(series, Unknown):
            return series
        pod = read_pod(series, target.served_model_name)
        return pod if isinstance(pod, Unknown) else Known(pod, at=at, stamp=at)

    async def _get(self, url: str) -> bytes | Unknown:
        limit = self._settings.timeout_seconds
        try:
            async with (
                asyncio.timeout(limit),
                self._open().get(URL(url, encoded=True), allow_redirects=False) as response,
            ):
                if response.status in _REDIRECTS:
                    return Unknown(
                        "ScrapeRedirected", "redirects are not followed; correct the URL"
                    )
                if response.status != _OK:
                    return Unknown("ScrapeHTTPError", f"HTTP {response.status}")
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    return Unknown("ScrapeEncoding", "compressed although none was accepted")
                return await self._read(response)
        except TimeoutError:
            return Unknown(_TIMEOUT_REASON, f"no complete answer within {limit:g} s at {url}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unknown("ScrapeFailed", f"{type(error).__name__} at {url}")

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | Unknown:
        """The body, given up as soon as it is larger than the limit."""
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._settings.max_body_bytes:
                return Unknown("ScrapeTooLarge", f"over {self._settings.max_body_bytes} bytes")
        return bytes(body)

    def _open(self) -> aiohttp.ClientSession:
        """The session, made inside the running loop. No proxy, no cookie, no kept connection.

        Kept connections would hold one descriptor for every pod of the cluster.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._settings.concurrency, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"},
                auto_decompress=False,
            )
        return self._session


def target_url(template: str, target: MetricsTarget) -> str | Unknown:
    """The URL of a pod's metrics, or why there is none that may be called."""
    host = ""
    if "{ip}" in template:
        checked = _checked_address(target.pod_ip)
        if isinstance(checked, Unknown):
            return checked
        host = f"[{checked}]" if checked.version == 6 else str(checked)  # noqa: PLR2004 -- IPv6
    if not _PATH.fullmatch(target.path) or ".." in target.path:
        return Unknown("InvalidMetricsPath", "metrics.path: give an absolute path, as /metrics")
    if not 1 <= target.port <= _HIGHEST_PORT:
        return Unknown("InvalidMetricsPort", f"metrics.port {target.port}: give 1 to 65535")
    if not (_NAME.fullmatch(target.namespace) and _NAME.fullmatch(target.pod)):
        return Unknown("InvalidPodName", "the pod's name or namespace is none of Kubernetes")
    return template.format(
        ip=host,
        port=target.port,
        path=target.path,
        namespace=target.namespace,
        pod=target.pod,
    )


def _checked_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | Unknown:
    """The pod's address, unless it is one that no pod of its own has."""
    if not text:
        return Unknown("NoPodIP", "the pod has no address yet")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return Unknown("InvalidPodIP", "the pod's address is no IP address")
    real = getattr(address, "ipv4_mapped", None) or address
    if (
        real.is_loopback
        or real.is_link_local
        or real.is_multicast
        or real.is_unspecified
        or real in _METADATA
    ):
        return Unknown(
            "RefusedPodIP",
            "loopback, link-local, multicast and metadata addresses are not scraped",
        )
    return address
