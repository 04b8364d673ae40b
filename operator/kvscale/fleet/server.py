"""The fleet over HTTP: /metrics for each pod, target discovery for Prometheus, and faults.

    GET /{namespace}/{pod}/metrics   what the pod's port would answer
    GET /targets                     for Prometheus `http_sd_configs`

Loopback only. A pod that starts answers 503, one that is not known 404. A fault stays on a pod
until it is taken off.
"""

import asyncio
from enum import StrEnum

from aiohttp import web

from kvscale.fleet.fleet import Fleet, FleetPod
from kvscale.ports import Clock

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

NO_SERIES = """\
# HELP process_resident_memory_bytes Resident memory size in bytes.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 6.634254336e+09
"""
"""What vLLM answers with `--disable-log-stats`: 200, and nothing of its own."""


class Fault(StrEnum):
    """What may be wrong with a pod's /metrics."""

    MALFORMED = "Malformed"
    HANG = "Hang"
    SERVER_ERROR = "ServerError"
    FROZEN = "Frozen"
    EMPTY = "Empty"
    NO_SERIES = "NoSeries"
    NOT_FOUND = "NotFound"


class FleetServer:
    """Serves a fleet on a port of the loopback interface.

    Args:
        fleet: whose pods.
        clock: the fleet is advanced to its `now` before each answer.
        port: 0 takes a free one.
    """

    def __init__(self, fleet: Fleet, clock: Clock, port: int = 0) -> None:
        self._fleet = fleet
        self._clock = clock
        self._port = port
        self._faults: dict[tuple[str, str], Fault] = {}
        self._frozen: dict[tuple[str, str], str] = {}
        self._hangs: dict[tuple[str, str], asyncio.Event] = {}
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that it listens on; the configured one before `start`."""
        return self._port

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get("/targets", self._targets)
        app.router.add_get("/{namespace}/{pod}/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; requests that hang are let go."""
        for key in list(self._hangs):
            self._hangs.pop(key).set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def set_fault(self, namespace: str, pod: str, fault: Fault | None) -> None:
        """Put a fault on a pod's /metrics, or take it off with None; others are replaced."""
        key = (namespace, pod)
        self._faults.pop(key, None)
        self._frozen.pop(key, None)
        if key in self._hangs:
            self._hangs.pop(key).set()
        if fault is None:
            return
        if fault is Fault.FROZEN:
            known = self._fleet.pod(namespace, pod)
            if known is None:
                raise ValueError(f"no pod {namespace}/{pod} whose values could freeze")
            self._frozen[key] = self._page(known)
        if fault is Fault.HANG:
            self._hangs[key] = asyncio.Event()
        self._faults[key] = fault

    def _page(self, pod: FleetPod) -> str:
        self._fleet.advance(self._clock.now())
        return self._fleet.metrics(pod)

    async def _targets(self, request: web.Request) -> web.Response:
        """Every Running pod, as Prometheus reads it (HTTP SD format)."""
        host = request.host
        return web.json_response(
            [
                {
                    "targets": [host],
                    "labels": {
                        "namespace": pod.namespace,
                        "pod": pod.name,
                        "__metrics_path__": f"/{pod.namespace}/{pod.name}/metrics",
                    },
                }
                for pod in self._fleet.pods
            ]
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["pod"])
        pod = self._fleet.pod(*key)
        fault = self._faults.get(key)
        if fault is Fault.HANG:
            await self._hangs[key].wait()
            raise web.HTTPServiceUnavailable(text="let go after a hang\n")
        if pod is None or fault is Fault.NOT_FOUND:
            raise web.HTTPNotFound(text=f"no running pod {'/'.join(key)}\n")
        if fault is Fault.SERVER_ERROR:
            raise web.HTTPInternalServerError(text="Internal Server Error\n")
        if fault is None and self._fleet.is_starting(pod):
            raise web.HTTPServiceUnavailable(text="starting\n")
        return web.Response(
            text=self._body(pod, key, fault), headers={"Content-Type": METRICS_TYPE}
        )

    def _body(self, pod: FleetPod, key: tuple[str, str], fault: Fault | None) -> str:
        match fault:
            case Fault.EMPTY:
                return ""
            case Fault.NO_SERIES:
                return NO_SERIES
            case Fault.FROZEN:
                return self._frozen[key]
            case Fault.MALFORMED:
                # Cut in the middle of a label, as a proxy does that times out.
                page = self._page(pod)
                return page[: page.index('model_name="') + len('model_name="')]
            case _:
                return self._page(pod)
