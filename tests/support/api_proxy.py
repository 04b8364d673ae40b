"""Between an operator and the API server: sees every call, and can hold one at a given moment.

HTTP inside, HTTPS outside. An operator that is killed while its call is held dies at exactly that
moment: before the server has seen the call, or after it has carried it out and before its answer.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Self

import aiohttp
from aiohttp import web

NOT_PASSED_ON = frozenset({"host", "transfer-encoding", "content-length", "connection"})


class Moment(Enum):
    """When a call is held."""

    BEFORE = "before the server sees it"
    AFTER = "after the server has done it"


@dataclass(frozen=True, slots=True)
class Call:
    """A call with the status that the server answered."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class Hold:
    """The next call of this kind is held until its client is gone."""

    method: str
    path: str
    moment: Moment
    reached: Event = field(default_factory=Event)


class ApiProxy:
    """A reverse proxy for one API server, on a thread of its own; a context manager."""

    def __init__(self, url: str, authority: Path) -> None:
        self._url = url
        self._ssl = ssl.create_default_context(cafile=str(authority))
        self._lock = Lock()
        self._calls: list[Call] = []
        self._holds: list[Hold] = []
        self._ready = Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), name="api proxy")
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()

    @property
    def calls(self) -> list[Call]:
        """What was answered until now."""
        with self._lock:
            return list(self._calls)

    def count(self, method: str, path: str) -> int:
        """Calls that the server accepted."""
        return sum(
            call.method == method and call.path == path and call.status < 300 for call in self.calls
        )

    def hold(self, method: str, path: str, moment: Moment) -> Hold:
        """Hold the next such call."""
        made = Hold(method, path, moment)
        with self._lock:
            self._holds.append(made)
        return made

    def kubeconfig(self, direct: Path) -> Path:
        """The same identity, through the proxy."""
        document = json.loads(direct.read_text())
        document["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path = direct.with_suffix(".proxied.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))
        return path

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            app = web.Application(client_max_size=1 << 26)
            app.router.add_route("*", "/{path:.*}", self._handler(session))
            # a client that goes away ends its call here: what is held is then never passed on
            runner = web.AppRunner(
                app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await stopped.wait()
            await runner.cleanup()

    def _handler(
        self, session: aiohttp.ClientSession
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            held = self._take_hold(request)
            if held is not None and held.moment is Moment.BEFORE:
                await _until_gone(held)
            headers = {k: v for k, v in request.headers.items() if k.lower() not in NOT_PASSED_ON}
            body = await request.read()
            async with session.request(
                request.method, self._url + request.raw_path, data=body or None, headers=headers
            ) as answer:
                self._note(request, answer.status)
                if held is not None:
                    await answer.read()
                    await _until_gone(held)
                return await _pass_on(request, answer)

        return handle

    def _take_hold(self, request: web.Request) -> Hold | None:
        with self._lock:
            for hold in self._holds:
                if (hold.method, hold.path) == (request.method, request.path):
                    self._holds.remove(hold)
                    return hold
        return None

    def _note(self, request: web.Request, status: int) -> None:
        with self._lock:
            self._calls.append(Call(request.method, request.path, status))


async def _until_gone(hold: Hold) -> None:
    """Until the client's end cancels the call."""
    hold.reached.set()
    await asyncio.Event().wait()


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """The answer, piece by piece: a watch has no end."""
    response = web.StreamResponse(status=answer.status)
    for name, value in answer.headers.items():
        if name.lower() not in NOT_PASSED_ON:
            response.headers[name] = value
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response
