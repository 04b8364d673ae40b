"""/metrics of the pods of several Deployments: a loopback server whose load is set from outside."""

import time
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from kvscale.fleet.metrics_text import Exposition, metrics_text
from kvscale.sim.request import Gauges
from kvscale.sim.settings import EngineSettings

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Load:
    """What each engine of a Deployment is doing."""

    used_blocks: int
    running: int
    waiting: int


class MetricsPages:
    """The server: an async context manager. A Deployment of which nothing was told idles.

    Args:
        settings: of every engine.
        idle: its load at rest.
    """

    def __init__(self, settings: EngineSettings, idle: Load) -> None:
        self._settings = settings
        self._idle = idle
        self._loads: dict[str, Load] = {}
        self._started = time.time()
        self._runner: web.AppRunner | None = None
        self.url = ""

    def press(self, deployment: str, load: Load) -> float:
        """Every pod of the Deployment says so from now on; the moment, on the monotonic clock."""
        self._loads[deployment] = load
        return time.monotonic()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{namespace}/{pod}/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        # "step-07-5d9f7c-x2b4q": the name of the Deployment, a revision, a pod
        deployment = request.match_info["pod"].rsplit("-", 2)[0]
        load = self._loads.get(deployment, self._idle)
        tokens = round(1_000 * (time.time() - self._started))
        gauges = Gauges(
            running=load.running,
            waiting=load.waiting,
            used_blocks=load.used_blocks,
            usable_blocks=self._settings.usable_blocks,
            preemptions_total=0,
            prompt_tokens_total=tokens,
            generation_tokens_total=tokens,
            finished_total=tokens // 1_000,
        )
        page = metrics_text((gauges,), self._settings, Exposition("llama"), self._started)
        return web.Response(text=page, headers={"Content-Type": METRICS_TYPE})
