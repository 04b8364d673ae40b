"""Observe: one consistent Snapshot from the caches and the metrics sources.

The only place that puts the outside together. What cannot be had becomes Unknown with its reason;
nothing is guessed and nothing is decided here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvscale.api.parse import parse_pool
from kvscale.app.inventory import Inventory
from kvscale.app.parts import Part, metrics_target, no_source, pool_snapshot, pools_by_target
from kvscale.app.pods import NOT_RUNNING, PodIndex
from kvscale.app.resolve import Resolution, resolve
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.inventory import NodeState
from kvscale.core.snapshot import Snapshot
from kvscale.core.spec import Mode, PoolKey, PoolSpec
from kvscale.core.values import Known, Unknown
from kvscale.ports import Clock, Cluster, ClusterView, MetricsSource, MetricsTarget
from kvscale.records import PoolObject, WorkloadRef

CONFIG_MAP_SECONDS = 60.0
"""ConfigMaps are got, not watched (we ask for no watch on them): so often they are read anew."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """The caches are not complete yet: nothing may be decided."""

    missing: tuple[str, ...]


@dataclass(slots=True)
class Observer:
    """Takes snapshots; keeps what is costly to parse while it does not change.

    Attributes:
        cluster: the caches of the API server.
        sources: metrics sources by name; pools that name none get the first.
        clock: time.
        operator_mode: for the snapshot.
    """

    cluster: Cluster
    sources: Mapping[str, MetricsSource]
    clock: Clock
    operator_mode: Mode | None = None
    _specs: dict[PoolKey, tuple[tuple[str, int], PoolSpec | Unknown]] = field(default_factory=dict)
    _resolved: dict[PoolKey, tuple[object, Resolution]] = field(default_factory=dict)
    _inventory: Inventory | Unknown = Unknown("NotSeen")
    _config_maps: dict[tuple[str, str], tuple[float, Mapping[str, str] | Unknown]] = field(
        default_factory=dict
    )

    async def snapshot(self) -> Snapshot | NotReady:
        """Look at everything once.

        The caches are read at one moment, without waiting in between; metrics are asked for
        after that, for exactly the pods that were seen.
        """
        view = self.cluster.view()
        if view.not_synced:
            return NotReady(view.not_synced)
        self._forget_gone(view)
        index = PodIndex.of(view.pods)
        parts = [self._part(pool, view, index) for pool in view.pools]
        await self._read_config_maps(parts)
        inventory = self._inventory_of(view.nodes)
        parts = [self._resolved_part(part, inventory) for part in parts]
        metrics = await self._collect(parts)
        nodes = view.nodes if isinstance(view.nodes, Unknown) else index.with_requests(view.nodes)
        by_name = None if isinstance(nodes, Unknown) else {node.name: node for node in nodes}
        others = pools_by_target(parts)
        pools = [
            pool_snapshot(part, view, metrics, by_name, others=others, at=self.clock.at)
            for part in parts
        ]
        return Snapshot(
            at=self.clock.now(),
            pools=tuple(sorted(pools, key=lambda pool: pool.key)),
            nodes=nodes,
            quotas=view.quotas,
            operator_mode=self.operator_mode,
        )

    def _part(self, pool: PoolObject, view: ClusterView, index: PodIndex) -> Part:
        spec = self._spec(pool)
        if isinstance(spec, Unknown):
            return Part(pool, spec, None, None, ())
        ref = WorkloadRef(spec.target.ref_kind, pool.key.namespace, spec.target.ref_name)
        workload = view.workloads.get(ref)
        members = index.members(workload) if workload is not None else ()
        return Part(pool, spec, ref, workload, members)

    def _spec(self, pool: PoolObject) -> PoolSpec | Unknown:
        version = (pool.uid, pool.generation)
        kept = self._specs.get(pool.key)
        if kept is not None and kept[0] == version:
            return kept[1]
        spec = parse_pool(pool.spec)
        self._specs[pool.key] = (version, spec)
        return spec

    async def _read_config_maps(self, parts: Sequence[Part]) -> None:
        now = self.clock.now()
        wanted = {name for part in parts if (name := part.config_map) is not None}
        due = [
            name
            for name in sorted(wanted)
            if name not in self._config_maps
            or now - self._config_maps[name][0] >= CONFIG_MAP_SECONDS
        ]
        found = await asyncio.gather(*(self.cluster.config_map(*name) for name in due))
        for name, data in zip(due, found, strict=True):
            self._config_maps[name] = (now, data)
        for name in set(self._config_maps) - wanted:
            del self._config_maps[name]

    async def _collect(self, parts: Sequence[Part]) -> Mapping[str, Known[PodMetrics] | Unknown]:
        """The metrics of all pods, each source asked once for all pools (rule 9)."""
        default = next(iter(self.sources))
        wanted: dict[str, list[MetricsTarget]] = {}
        answers: dict[str, Known[PodMetrics] | Unknown] = {}
        for part in parts:
            if isinstance(part.spec, Unknown):
                continue
            name = part.spec.metrics.source_name or default
            for pod in part.pods:
                if pod.phase != "Running":
                    answers[pod.uid] = NOT_RUNNING
                elif name not in self.sources:
                    answers[pod.uid] = no_source(name, self.sources)
                else:
                    target = metrics_target(pod, part.spec.metrics, part.found)
                    wanted.setdefault(name, []).append(target)
        found = await asyncio.gather(
            *(self.sources[name].collect(targets) for name, targets in wanted.items())
        )
        for answer in found:
            answers.update(answer)
        return answers

    def _inventory_of(self, nodes: Sequence[NodeState] | Unknown) -> Inventory | Unknown:
        """The inventory: a new one when a node came, went, or says something else of itself."""
        if isinstance(nodes, Unknown):
            self._inventory = nodes
        elif isinstance(self._inventory, Unknown) or not self._inventory.says_the_same(nodes):
            self._inventory = Inventory(nodes)
        return self._inventory

    def _resolved_part(self, part: Part, inventory: Inventory | Unknown) -> Part:
        if isinstance(part.spec, Unknown) or part.workload is None:
            return part
        name = part.config_map
        config = self._config_maps[name][1] if name is not None else None
        version = (part.spec, part.workload.uid, part.workload.template_key, config, inventory)
        kept = self._resolved.get(part.pool.key)
        if kept is None or kept[0] != version:
            kept = (version, resolve(part.spec, part.workload, inventory, config))
            self._resolved[part.pool.key] = kept
        return replace(part, found=kept[1])

    def _forget_gone(self, view: ClusterView) -> None:
        there = {pool.key for pool in view.pools}
        for key in set(self._specs) - there:
            self._specs.pop(key, None)
            self._resolved.pop(key, None)
