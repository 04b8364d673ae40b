"""Where metrics come from: the operator's configuration of its sources.

Pools name a source, never a URL: whoever may create a pool must not be able to make the operator
call an address of their choosing.
"""

import re
import string
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_TEMPLATE_FIELDS = frozenset({"ip", "port", "path", "namespace", "pod"})
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """How pods are scraped; from the operator's configuration, never from a pool.

    Attributes:
        url_template: with any of {ip}, {port}, {path}, {namespace}, {pod}. Without {ip} the pod's
            own address is neither needed nor checked.
        concurrency: requests in flight.
        timeout_seconds: of one request, from the connection to the last byte.
        deadline_seconds: of one round over all pods; who has not answered by then is Unknown.
        max_body_bytes: of one answer.

    Raises:
        ValueError: names the setting and what it must be.
    """

    url_template: str = "http://{ip}:{port}{path}"
    concurrency: int = 64
    timeout_seconds: float = 2.0
    deadline_seconds: float = 4.0
    max_body_bytes: int = 5_000_000

    def __post_init__(self) -> None:
        try:
            fields = {name for _, name, _, _ in string.Formatter().parse(self.url_template) if name}
            sample = self.url_template.format(
                ip="192.0.2.1", port=1, path="/", namespace="n", pod="p"
            )
            url = urlsplit(sample)
            host, _ = url.hostname, url.port
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(
                f"scrape URL template {self.url_template!r}: {error};"
                " use {ip}, {port}, {path}, {namespace}, {pod} and nothing else in braces"
            ) from None
        if url.scheme not in {"http", "https"} or not host or not fields <= _TEMPLATE_FIELDS:
            raise ValueError(
                f"scrape URL template {self.url_template!r}: give http:// or https:// and a host"
            )
        if "@" in url.netloc or url.fragment:
            raise ValueError(
                f"scrape URL template {self.url_template!r}: leave out user, password and fragment"
            )
        for name in ("concurrency", "timeout_seconds", "deadline_seconds", "max_body_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"scrape {name} {getattr(self, name)!r}: give more than 0")


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Which server is asked and how; from the operator's configuration, never from a pool.

    Attributes:
        url: of the server, as `http://prometheus.monitoring:9090`; a path prefix is kept.
        timeout_seconds: of the query as a whole, and of each wait within it.
        namespace_label, pod_label: target labels that name the pod.
        instance_label: target label with the scraped address; where its host is an IP address
            other than the pod's, the series belong to an earlier pod of that name and are
            dropped. "": not compared (needed where a proxy is scraped in the pod's place).
        matchers: further label equalities for every selector, as (("cluster", "a"),) where one
            server holds several clusters.
        bearer_token_file, ca_file: read anew for every query, so that rotation needs no restart.
        headers: sent along, as (("X-Scope-OrgID", "team"),).
        max_series: of one answer; beyond it everything is Unknown.
        max_body_bytes: of one answer.

    Raises:
        ValueError: names the setting and what it must be.
    """

    url: str
    timeout_seconds: float = 4.0
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    instance_label: str = "instance"
    matchers: tuple[tuple[str, str], ...] = ()
    bearer_token_file: Path | None = None
    ca_file: Path | None = None
    headers: tuple[tuple[str, str], ...] = ()
    max_series: int = 200_000
    max_body_bytes: int = 100_000_000

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.url)
            host, _ = url.hostname, url.port
        except ValueError as error:
            raise ValueError(f"Prometheus URL {self.url!r}: {error}") from None
        if url.scheme not in {"http", "https"} or not host or url.query or url.fragment:
            raise ValueError(f"Prometheus URL {self.url!r}: give http(s)://host[:port][/prefix]")
        if "@" in url.netloc:
            raise ValueError("Prometheus URL: leave out user and password; use a bearer token file")
        for name in (self.namespace_label, self.pod_label, *(key for key, _ in self.matchers)):
            if not _LABEL_NAME.fullmatch(name):
                raise ValueError(f"label name {name!r}: give letters, digits and underscores")
        for name in ("timeout_seconds", "max_series", "max_body_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Prometheus {name} {getattr(self, name)!r}: give more than 0")
