"""Engines of one pool behind one router: pods come, start up, serve, and are taken away."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from kvscale.sim.engine import Engine
from kvscale.sim.request import Finished, Gauges, Request
from kvscale.sim.router import Router
from kvscale.sim.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds from a pod's creation until it serves.

    Attributes:
        warm: on a node that has image and weights.
        cold: on a node that has to be provisioned first.
    """

    warm: float
    cold: float


@dataclass(slots=True)
class _Pod:
    engines: tuple[Engine, ...]
    ready_at: float
    ready: bool = False


@dataclass(slots=True)
class _Attempt:
    """What a client remembers of its earlier attempts."""

    count: int = 1
    preemptions: int = 0


@dataclass(slots=True)
class Totals:
    """Counts since the start; they outlive the pods.

    Attributes:
        rejected: longer than an engine's `max_model_len`: answered 400, not tried again.
        retried: attempts that began anew because their engine was removed.
    """

    submitted: int = 0
    finished: int = 0
    rejected: int = 0
    retried: int = 0
    preemptions: int = 0


@dataclass(slots=True)
class Pool:
    """Pods with engines of one kind, and the requests on their way to them.

    Requests wait at the router while no engine is ready. A request whose pod is removed is lost
    there, with all that it had generated, and its client tries again at once.

    Attributes:
        settings: of each engine.
        start_up: for pods whose readiness nobody reports.
        engines_per_pod: data-parallel ranks.
        now: the moment to which it was advanced, seconds since its start.
        totals: what became of the requests.
    """

    settings: EngineSettings
    router: Router
    start_up: StartUp = StartUp(0.0, 0.0)
    engines_per_pod: int = 1
    now: float = field(default=0.0, init=False)
    totals: Totals = field(default_factory=Totals, init=False)
    _pods: dict[str, _Pod] = field(default_factory=dict, init=False)
    _arrivals: deque[Request] = field(default_factory=deque, init=False)
    _held: deque[Request] = field(default_factory=deque, init=False)
    _attempts: dict[int, _Attempt] = field(default_factory=dict, init=False)
    _finished: list[Finished] = field(default_factory=list, init=False)

    def offer(self, requests: Iterable[Request]) -> None:
        """Announce requests in order of arrival; they are routed when their time comes.

        Raises:
            ValueError: one arrives before the one ahead of it, or before now.
        """
        for request in requests:
            last = self._arrivals[-1].arrived_at if self._arrivals else self.now
            if request.arrived_at < last:
                raise ValueError(f"request {request.id} at {request.arrived_at} is not in order")
            self._arrivals.append(request)

    @property
    def pods(self) -> tuple[str, ...]:
        """Uids of the pods, oldest first."""
        return tuple(self._pods)

    @property
    def ready_pods(self) -> tuple[str, ...]:
        """Uids of the pods that get traffic, oldest first."""
        return tuple(uid for uid, pod in self._pods.items() if pod.ready)

    @property
    def held(self) -> int:
        """Requests that wait at the router because no engine is ready."""
        return len(self._held)

    @property
    def unanswered(self) -> int:
        """Requests that have arrived and are neither finished nor rejected."""
        totals = self.totals
        return totals.submitted - totals.finished - totals.rejected

    def add_pod(self, uid: str, *, cold: bool = False, reported: bool = False) -> None:
        """Create a pod now.

        Args:
            uid: unique for all time, as in Kubernetes.
            cold: its node has to be provisioned first.
            reported: somebody else says when it is ready (`set_ready`).

        Raises:
            ValueError: a pod of that uid is there.
        """
        if uid in self._pods:
            raise ValueError(f"pod {uid} is there already")
        seconds = self.start_up.cold if cold else self.start_up.warm
        ready_at = inf if reported else self.now + seconds
        engines = tuple(Engine(self.settings, self.now) for _ in range(self.engines_per_pod))
        self._pods[uid] = _Pod(engines, ready_at)
        self._open_ready()

    def set_ready(self, uid: str, *, ready: bool) -> None:
        """Whether a pod gets traffic from now on; what it already has, it keeps."""
        pod = self._pods[uid]
        pod.ready, pod.ready_at = ready, inf
        self._release()

    def remove_pod(self, uid: str) -> None:
        """Take a pod away now; its clients try again."""
        pod = self._pods.pop(uid)
        lost = sorted(
            (entry for engine in pod.engines for entry in engine.unfinished()),
            key=lambda entry: (entry[0].arrived_at, entry[0].id),
        )
        for request, preemptions in lost:
            attempt = self._attempts.setdefault(request.id, _Attempt())
            attempt.count += 1
            attempt.preemptions += preemptions
            self.totals.preemptions += preemptions
            self.totals.retried += 1
            self._route(request)

    def advance(self, to: float) -> list[Finished]:
        """Run until `to`; returns what finished since the last call, in order of time.

        Raises:
            ValueError: `to` lies before now.
        """
        if to < self.now:
            raise ValueError(f"cannot go back from {self.now} to {to}")
        while True:
            arrival = self._arrivals[0].arrived_at if self._arrivals else inf
            opening = min((pod.ready_at for pod in self._pods.values()), default=inf)
            at = min(arrival, opening)
            if at > to:
                break
            self._run_engines(at)
            self._open_ready()
            while self._arrivals and self._arrivals[0].arrived_at <= at:
                self.totals.submitted += 1
                self._route(self._arrivals.popleft())
        self._run_engines(to)
        finished, self._finished = self._finished, []
        finished.sort(key=lambda f: (f.finished_at, f.request.id))
        return finished

    def gauges(self, uid: str) -> tuple[Gauges, ...]:
        """The engines of a pod, by data-parallel index; KeyError for an unknown pod."""
        engines = self._pods[uid].engines
        for engine in engines:
            # It may have been left behind, but has no event to miss.
            self._collect(engine.advance(self.now))
        return tuple(engine.gauges() for engine in engines)

    def _run_engines(self, to: float) -> None:
        for pod in self._pods.values():
            for engine in pod.engines:
                # Engines without an event are left behind: they catch up when one comes.
                if engine.next_event <= to:
                    self._collect(engine.advance(to))
        self.now = to

    def _collect(self, finished: list[Finished]) -> None:
        for done in finished:
            self.totals.finished += 1
            self.totals.preemptions += done.preemptions
            attempt = self._attempts.pop(done.request.id, None)
            self._finished.append(
                done
                if attempt is None
                else Finished(
                    done.request,
                    done.first_token_at,
                    done.finished_at,
                    done.preemptions + attempt.preemptions,
                    attempt.count,
                )
            )

    def _open_ready(self) -> None:
        """Let pods serve whose start-up is over, and hand out what waits for them."""
        for pod in self._pods.values():
            if pod.ready_at <= self.now:
                pod.ready, pod.ready_at = True, inf
        self._release()

    def _release(self) -> None:
        """Route what waits at the router; it goes back there while no engine is ready."""
        held, self._held = self._held, deque()
        while held:
            self._route(held.popleft())

    def _route(self, request: Request) -> None:
        """Send a request to an engine, or hold it while none is ready."""
        if not self.settings.accepts(request):
            self.totals.rejected += 1
            return
        engines = [e for pod in self._pods.values() if pod.ready for e in pod.engines]
        if not engines:
            self._held.append(request)
            return
        engines[self.router.choose(engines)].submit(request, self.now)
