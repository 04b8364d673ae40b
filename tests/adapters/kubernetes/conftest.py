"""The fake API server, a clock that a test moves, and a reflector between them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from kubernetes.client import Configuration

from adapters.kubernetes.fake_api import BLINK, FakeApi
from kvscale.adapters.kubernetes.cache import Cache
from kvscale.adapters.kubernetes.client import Client, Timeouts
from kvscale.adapters.kubernetes.reflector import Pace, Reflector
from kvscale.adapters.kubernetes.resources import PODS, Resource


@dataclass
class Now:
    """Time that moves when a test says so; epoch seconds."""

    at: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Harness:
    """A running reflector, the waits that it asked for, and how to look into its cache."""

    api: FakeApi
    cache: Cache[Any]
    reflector: Reflector[Any]
    waits: list[float] = field(default_factory=list)
    changes: list[None] = field(default_factory=list)

    def names(self) -> set[str]:
        return {record.name for record in self.cache.records()}

    def shows(self, *names: str) -> None:
        """Wait until the cache holds exactly these."""
        self.api.eventually(lambda: self.cache.problem() is None and self.names() == set(names))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def client(api: FakeApi) -> Iterator[Client]:
    timeouts = Timeouts(connect=5.0, page=5.0, call=5.0, watch=5.0)
    connection = Client(Configuration(host=api.url), timeouts)
    yield connection
    connection.close()


class ReflectorFactory:
    """Starts reflectors whose waits are noted instead of sat out."""

    def __init__(self, api: FakeApi, now: Now) -> None:
        self._api = api
        self._now = now
        self._started: list[tuple[Reflector[Any], Event]] = []

    def __call__(
        self, resource: Resource[Any] = PODS, *, watch_silence: float = 5.0, **pace: Any
    ) -> Harness:
        cache = Cache(resource, "", self._now, stale_after=120.0)
        stopped = Event()
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            self._api.poke()
            return stopped.wait(min(seconds, BLINK))

        changes: list[None] = []

        def on_change() -> None:
            changes.append(None)
            self._api.poke()

        client = Client(
            Configuration(host=self._api.url),
            Timeouts(connect=5.0, page=5.0, call=5.0, watch=watch_silence),
        )
        reflector = Reflector(
            client,
            cache,
            resource.collection(),
            on_change=on_change,
            pace=Pace(**pace),
            wait=wait,
        )
        self._started.append((reflector, stopped))
        reflector.start()
        return Harness(self._api, cache, reflector, waits, changes)

    def stop(self) -> None:
        for reflector, stopped in self._started:
            stopped.set()
            reflector.stop()
        assert all(reflector.join(10.0) for reflector, _ in self._started)


@pytest.fixture
def start_reflector(api: FakeApi, now: Now) -> Iterator[ReflectorFactory]:
    factory = ReflectorFactory(api, now)
    yield factory
    factory.stop()
