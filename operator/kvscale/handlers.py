"""kopf: start-up, wake-ups, probes; nothing else.

The loop decides over all pools at once, so there is no handler, timer or daemon per pool (each
would put a finalizer on the user's objects). An event only wakes the loop, which then reads its
own caches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import kopf

from kvscale.api.inferencepool import GROUP, PLURAL, VERSION
from kvscale.app.loop import Loop


@dataclass(frozen=True, slots=True)
class Probe:
    """What the liveness endpoint answers from.

    Attributes:
        alive_within: seconds after which a loop that finished no round is dead.
        now: epoch seconds.
    """

    loop: Loop
    alive_within: float
    now: Callable[[], float]
    started: float

    def check(self) -> Mapping[str, Any]:
        """The loop's state, for a person.

        Raises:
            RuntimeError: no round finished for too long: kopf then answers 500 and the kubelet
                restarts the pod.
        """
        last = self.loop.last_finished
        age = self.now() - (last if last is not None else self.started)
        if age > self.alive_within:
            told = self.loop.last_problem or "no round has finished"
            raise RuntimeError(f"{age:.0f} s without a finished round: {told}")
        return {"secondsSinceRound": round(age, 1), "problem": self.loop.last_problem}


class Seen:
    """What of each pool the loop was last woken for: its generation and our annotations on it."""

    def __init__(self) -> None:
        self._versions: dict[str, object] = {}

    def is_news(
        self, kind: str | None, uid: str, generation: object, annotations: Mapping[str, str]
    ) -> bool:
        """Whether an event tells something that a person did; a status write is none."""
        if kind == "DELETED":
            self._versions.pop(uid, None)
            return True
        ours = sorted(item for item in annotations.items() if item[0].startswith(f"{GROUP}/"))
        version = (generation, ours)
        if self._versions.get(uid) == version:
            return False
        self._versions[uid] = version
        return True


def build_registry(
    loop: Loop,
    probe: Probe,
    *,
    login: Callable[[], Mapping[str, Any]],
    stop: asyncio.Event,
    start: Callable[[], Awaitable[None]],
    finish: Callable[[], Awaitable[None]],
    scan: bool,
) -> kopf.OperatorRegistry:
    """The handlers of one operator.

    Args:
        loop: to run and to wake.
        probe: of the loop.
        login: where the API server is, as arguments of kopf.ConnectionInfo, for kopf's own watch.
        stop: set when the operator shall end; also set when the loop dies.
        start: starts the adapters.
        finish: stops them.
        scan: whether kopf may watch CustomResourceDefinitions (a namespaced install may not).
    """
    registry = kopf.OperatorRegistry()
    running: list[asyncio.Task[None]] = []
    seen = Seen()

    @kopf.on.login(registry=registry)
    def log_in(**_: object) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(**login())

    @kopf.on.startup(registry=registry)
    async def start_up(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings, scan=scan)
        await start()
        task = asyncio.create_task(loop.run(stop))
        # A task that dies unnoticed leaves an operator that lives and does nothing.
        task.add_done_callback(lambda _: stop.set())
        running.append(task)

    @kopf.on.cleanup(registry=registry)
    async def clean_up(**_: object) -> None:
        stop.set()
        await asyncio.wait(running, timeout=10)
        await finish()

    @kopf.on.probe(registry=registry, id="loop")
    def probe_loop(**_: object) -> Mapping[str, Any]:
        return probe.check()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry, id="wake")
    def wake(type: str | None, uid: str | None, body: kopf.Body, **_: object) -> None:  # noqa: A002 - kopf's name
        """Wake the loop when a person changed something; our own status writes change nothing."""
        if seen.is_news(
            type, uid or "", body.metadata.get("generation"), body.metadata.annotations
        ):
            loop.wake()

    return registry


class Endless:
    """Seconds between attempts that never give up.

    kopf ends the whole operator after its last attempt, which by default comes 54 s after the API
    server went; ours shall be there when it is back (kopf 1.45 _cogs/clients/api.py: an iterable
    without a length has no last attempt).
    """

    def __iter__(self) -> Iterator[float]:
        """From the start, for each request."""
        return chain((1, 1, 2, 3, 5), repeat(10))


def configure(settings: kopf.OperatorSettings, *, scan: bool) -> None:
    """Settings of kopf; each against a default that has hurt somebody (kopf issue in brackets)."""
    settings.peering.standalone = True  # a stray peering object would freeze the watch [#734]
    settings.posting.enabled = False  # events are ours, deduplicated
    settings.posting.loggers = False
    settings.persistence.finalizer = f"{GROUP}/finalizer"  # never used: there is nothing to finish
    settings.scanning.disabled = not scan
    settings.watching.server_timeout = 300  # a watch that hangs ends [#585, #957]
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
    settings.watching.inactivity_timeout = 70  # bookmarks come once a minute
    settings.networking.request_timeout = 30  # the default is five minutes
    settings.networking.error_backoffs = Endless()
    settings.execution.max_workers = 2


async def run(
    registry: kopf.OperatorRegistry,
    *,
    namespaces: Sequence[str],
    liveness: str,
    stop: asyncio.Event,
) -> None:
    """Run kopf until `stop` is set or a signal arrives."""
    await kopf.operator(
        registry=registry,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        standalone=True,
        liveness_endpoint=liveness or None,
        stop_flag=stop,
    )
