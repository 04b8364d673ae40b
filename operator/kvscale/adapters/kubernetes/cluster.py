"""The `Cluster` port: the caches of all resources, and the small calls."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from kvscale.adapters.kubernetes import resources
from kvscale.adapters.kubernetes.cache import FORBIDDEN, Cache, version_number
from kvscale.adapters.kubernetes.client import FIELD_MANAGER, Client
from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.events import Announcer
from kvscale.adapters.kubernetes.project.fields import mapping
from kvscale.adapters.kubernetes.reflector import Pace, Reflector
from kvscale.adapters.kubernetes.resources import Resource, object_path
from kvscale.adapters.kubernetes.writes import Scaled, Writer
from kvscale.core.inventory import NodeState
from kvscale.core.spec import PoolKey
from kvscale.core.values import Unknown
from kvscale.ports import ClusterView, EventNote, ScaleWrite, WriteResult
from kvscale.records import Json, WorkloadRecord

R = TypeVar("R")

NO_NODE_ACCESS = "NoNodeAccess"

_NOT_FOUND = 404
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Watching(Generic[R]):
    """The caches of one resource: one, or one for each namespace."""

    caches: tuple[Cache[R], ...]

    def records(self) -> tuple[R, ...]:
        """Of all namespaces."""
        return tuple(record for cache in self.caches for record in cache.records())

    def problems(self) -> tuple[Unknown, ...]:
        """Why the records must not be used."""
        return tuple(p for cache in self.caches if (p := cache.problem()) is not None)


class KubernetesCluster:
    """Caches, writes and events of one API server.

    Args:
        client: the connection.
        namespaces: those of a namespaced install (which has no access to nodes); (): all.
        instance: the operator's pod, as events name it.
        now: epoch seconds that never step back, at the pace of real time.
        on_change: called with a resource's plural when something of it changed, on the thread
            that saw it.
        pace: of the reflectors.
        stale_after: seconds without a word from the server after which a cache is not believed;
            more than a watch may be silent and be opened again.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Sequence[str],
        instance: str,
        now: Callable[[], float],
        on_change: Callable[[str], None],
        pace: Pace | None = None,
        stale_after: float = 120.0,
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces)
        self._now = now
        self._on_change = on_change
        self._pace = pace or Pace()
        self._stale_after = stale_after
        self._writer = Writer(client, now)
        self._announcer = Announcer(client, instance, now)
        self._reflectors: list[Reflector[Any]] = []
        self._pools = self._watch(resources.POOLS)
        self._deployments = self._watch(resources.DEPLOYMENTS)
        self._stateful_sets = self._watch(resources.STATEFUL_SETS)
        self._pods = self._watch(resources.PODS)
        self._nodes = None if self._namespaces else self._watch(resources.NODES)
        self._quotas = self._watch(resources.QUOTAS)
        self._hpas = self._watch(resources.HPAS)
        self._scaled_objects = self._watch(resources.SCALED_OBJECTS)

    def start(self) -> None:
        """Start the watching threads; once."""
        for reflector in self._reflectors:
            reflector.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stop them, within so many seconds; one that hangs in a call is left to its time-out."""
        for reflector in self._reflectors:
            reflector.stop()
        until = self._now() + seconds
        ended = [reflector.join(max(0.0, until - self._now())) for reflector in self._reflectors]
        if all(ended):
            self._client.close()

    def ages(self) -> Mapping[str, float | None]:
        """Seconds since the server's last word, for each watch; None before the first."""
        return {cache.label: cache.age() for cache in self._all_caches()}

    def view(self) -> ClusterView:
        """The caches as they are now; no I/O."""
        nodes, node_problems = self._nodes_now()
        quotas, quota_problems = _unless_forbidden(self._quotas)
        # KEDA scales through an HPA of its own, so without access to ScaledObjects a conflict is
        # still seen; only its name is another.
        keda, keda_problems = _unless_forbidden(self._scaled_objects)
        workloads = self._deployments.records() + self._stateful_sets.records()
        needed = (self._pools, self._deployments, self._stateful_sets, self._pods, self._hpas)
        problems = [p for watching in needed for p in watching.problems()]
        problems += [*node_problems, *quota_problems, *keda_problems]
        return ClusterView(
            not_synced=tuple(problem.message for problem in problems),
            pools=self._pools.records(),
            workloads={record.ref: record for record in workloads},
            pods=self._pods.records(),
            nodes=nodes,
            quotas=quotas,
            scalers=self._hpas.records() + (() if isinstance(keda, Unknown) else keda),
        )

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | Unknown:
        """The data of a ConfigMap."""
        return await asyncio.to_thread(self._config_map, namespace, name)

    async def scale(self, write: ScaleWrite) -> WriteResult:
        """Write a replica count; once applied, `view` shows it without waiting for the watch."""
        result, scaled = await asyncio.to_thread(self._writer.scale, write)
        if scaled is not None:
            self._show(write, scaled)
        return result

    async def apply_status(self, key: PoolKey, status: Json) -> WriteResult:
        """Server-side apply of a pool's whole status."""
        return await asyncio.to_thread(self._writer.apply_status, key, status)

    async def emit(self, note: EventNote) -> None:
        """Post an event; what was said within two minutes is not said again."""
        await asyncio.to_thread(self._announcer.post, note)

    def _watch(self, resource: Resource[R]) -> Watching[R]:
        caches = []
        for namespace in self._namespaces or ("",):
            cache = Cache(resource, namespace, self._now, self._stale_after)
            caches.append(cache)
            path = resource.collection(namespace)
            changed = partial(self._on_change, resource.name)
            self._reflectors.append(
                Reflector(self._client, cache, path, on_change=changed, pace=self._pace)
            )
        return Watching(tuple(caches))

    def _all_caches(self) -> list[Cache[Any]]:
        return [reflector.cache for reflector in self._reflectors]

    def _nodes_now(self) -> tuple[tuple[NodeState, ...] | Unknown, tuple[Unknown, ...]]:
        if self._nodes is None:
            return Unknown(NO_NODE_ACCESS, "a namespaced install does not read nodes"), ()
        nodes, problems = _unless_forbidden(self._nodes)
        if isinstance(nodes, Unknown):
            nodes = Unknown(NO_NODE_ACCESS, nodes.message)
        return nodes, problems

    def _show(self, write: ScaleWrite, scaled: Scaled) -> None:
        def change(record: WorkloadRecord) -> WorkloadRecord:
            return replace(
                record,
                resource_version=scaled.resource_version,
                generation=record.generation + 1,
                replicas=write.replicas,
                replicas_manager=FIELD_MANAGER,
                replicas_changed_at=None,  # as the server will say of a write of /scale
            )

        version = version_number(scaled.resource_version)
        for cache in self._deployments.caches + self._stateful_sets.caches:
            cache.amend(scaled.uid, version, change)

    def _config_map(self, namespace: str, name: str) -> Mapping[str, str] | Unknown:
        what = f"ConfigMap {namespace}/{name}"
        try:
            raw = self._client.get(object_path("v1", "configmaps", namespace, name))
        except ValueError as error:
            return Unknown("InvalidName", f"ConfigMap: {error}")
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return Unknown("ConfigMapNotFound", f"{what} does not exist")
            if error.status == _FORBIDDEN:
                return Unknown(FORBIDDEN, f"{what}: grant get on configmaps ({error.message})")
            return Unknown("ConfigMapUnavailable", f"{what}: {error}")
        data = mapping(raw, "data")
        return {key: value for key, value in data.items() if isinstance(value, str)}


def _unless_forbidden(
    watching: Watching[R],
) -> tuple[tuple[R, ...] | Unknown, tuple[Unknown, ...]]:
    """The records, or Unknown where the server refuses them; and every other problem."""
    problems = watching.problems()
    refused = next((p for p in problems if p.reason == FORBIDDEN), None)
    others = tuple(p for p in problems if p.reason != FORBIDDEN)
    return (watching.records() if refused is None else refused), others
