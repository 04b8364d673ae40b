"""/metrics of engines that do not run: a loopback server whose values a test sets, pod by pod.

Every engine has 1,001 blocks of 16 tokens, so 1,000 are usable, and at the default target of 85 %
one replica is planned for 850. The text is the fleet's, so it is vLLM's own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self

from kvscale.core.capacity.roofline import StepTime
from kvscale.fleet.metrics_text import Exposition, metrics_text
from kvscale.sim.request import Gauges
from kvscale.sim.settings import EngineSettings

SETTINGS = EngineSettings(
    kv_blocks=1001,
    block_tokens=16,
    max_num_seqs=256,
    max_num_batched_tokens=2048,
    max_model_len=8192,
    step=StepTime(0.01, 0.0, (), 0.0, 0.0, 0.0),
)
TOKENS_PER_SECOND = 100
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Load:
    """What one engine is doing: blocks that it uses, requests that run and that wait."""

    used: int = 0
    running: int = 0
    waiting: int = 0


Page = Load | bytes
"""What a pod answers: the page of a load, or these very bytes."""


class EnginePages:
    """The server; a context manager.

    A pod of which nothing has been told answers 404, as a wrong port does.
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], Page] = {}
        self._ips: dict[tuple[str, str], str] = {}
        self._asked: dict[tuple[str, str], int] = {}
        self._lock = Lock()
        self._started = time.time()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="engine pages")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def template(self) -> str:
        """For --scrape-url-template."""
        return self.url + "/{namespace}/{pod}{path}"

    def show(self, namespace: str, page: Page, pod: str = "") -> None:
        """Let a pod of the namespace, or every one without a page of its own, answer this."""
        with self._lock:
            self._pages[namespace, pod] = page

    def silence(self, namespace: str) -> None:
        """Let the pods of a namespace answer 404 again."""
        with self._lock:
            for key in [key for key in self._pages if key[0] == namespace]:
                del self._pages[key]

    def announce(self, namespace: str, addresses: Mapping[str, str]) -> None:
        """The pods of a namespace (name to address) that /targets tells Prometheus of."""
        with self._lock:
            self._ips = {key: ip for key, ip in self._ips.items() if key[0] != namespace}
            self._ips |= {(namespace, pod): ip for pod, ip in addresses.items()}

    def asked(self, namespace: str, pod: str) -> int:
        """How often the pod's metrics were fetched."""
        with self._lock:
            return self._asked.get((namespace, pod), 0)

    def _answer(self, namespace: str, pod: str) -> bytes | None:
        with self._lock:
            key = (namespace, pod)
            self._asked[key] = self._asked.get(key, 0) + 1
            page = self._pages.get(key, self._pages.get((namespace, "")))
        return self._text(page) if isinstance(page, Load) else page

    def _text(self, load: Load) -> bytes:
        """The page; engines that run requests emit tokens as time goes on."""
        tokens = int((time.time() - self._started) * TOKENS_PER_SECOND) if load.running else 0
        gauges = Gauges(
            running=load.running,
            waiting=load.waiting,
            used_blocks=load.used,
            usable_blocks=SETTINGS.usable_blocks,
            preemptions_total=0,
            prompt_tokens_total=tokens,
            generation_tokens_total=tokens,
            finished_total=0,
        )
        return metrics_text([gauges], SETTINGS, Exposition("llama"), self._started).encode()

    def _targets(self) -> list[dict[str, Any]]:
        """In the form of Prometheus' `http_sd_configs`."""
        with self._lock:
            pods = list(self._ips.items())
        return [
            {
                "targets": [self.url.removeprefix("http://")],
                "labels": {
                    "namespace": namespace,
                    "pod": pod,
                    "instance": f"{ip}:8000",
                    "__metrics_path__": f"/{namespace}/{pod}/metrics",
                },
            }
            for (namespace, pod), ip in pods
        ]

    def _handler(pages) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the request's here
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/targets":
                    self._send(200, json.dumps(pages._targets()).encode(), "application/json")
                    return
                namespace, _, pod = self.path.removesuffix("/metrics").strip("/").partition("/")
                body = pages._answer(namespace, pod)
                if body is None:
                    self._send(404, b"nothing here\n", TYPE)
                else:
                    self._send(200, body, TYPE)

            def _send(self, code: int, body: bytes, content_type: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the operator asks every second."""

        return Handler
