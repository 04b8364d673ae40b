"""A pool with what the caches say of it, and how that becomes its part of the snapshot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kvscale.api.parse import parse_annotations
from kvscale.app.pods import pod_state, target_state
from kvscale.app.resolve import Resolution
from kvscale.core.decide import reasons
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.endpoints import DEFAULT_PATHS, DEFAULT_PORTS
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.inventory import NodeState, OtherScaler
from kvscale.core.scaling import Actuation
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.spec import ConfigMapRef, MetricsSpec, Mode, PoolKey, PoolSpec
from kvscale.core.values import Known, Unknown
from kvscale.ports import ClusterView, MetricsSource, MetricsTarget
from kvscale.records import PodRecord, PoolObject, WorkloadRecord, WorkloadRef


@dataclass(frozen=True, slots=True)
class Part:
    """A pool with what the caches say of it."""

    pool: PoolObject
    spec: PoolSpec | Unknown
    ref: WorkloadRef | None
    workload: WorkloadRecord | None
    pods: tuple[PodRecord, ...]
    found: Resolution | None = None

    @property
    def writes(self) -> bool:
        """Whether the pool may write its target's count."""
        if isinstance(self.spec, Unknown):
            return False
        return (
            self.spec.mode in {None, Mode.AUTO} and self.spec.scaling.actuation is Actuation.SCALE
        )

    @property
    def config_map(self) -> tuple[str, str] | None:
        """Namespace and name of the ConfigMap that the model is in, if it is in one."""
        if isinstance(self.spec, Unknown) or not isinstance(self.spec.model, ConfigMapRef):
            return None
        return self.pool.key.namespace, self.spec.model.name


def pools_by_target(parts: Sequence[Part]) -> Mapping[WorkloadRef, list[PoolKey]]:
    """The pools that write to each target: two on one target are a conflict of both.

    A pool that only recommends, publishes or pauses stands in nobody's way.
    """
    found: dict[WorkloadRef, list[PoolKey]] = {}
    for part in parts:
        if part.ref is not None and part.writes:
            found.setdefault(part.ref, []).append(part.pool.key)
    return found


def _other_scalers(
    part: Part, view: ClusterView, others: Mapping[WorkloadRef, list[PoolKey]]
) -> tuple[OtherScaler, ...]:
    """Who else scales the target: HPAs, ScaledObjects, and other pools."""
    if part.ref is None:
        return ()
    found = [record.scaler for record in view.scalers if record.target == part.ref]
    found += [
        OtherScaler("InferencePool", key.name)
        for key in others.get(part.ref, [])
        if key != part.pool.key
    ]
    return tuple(sorted(found, key=lambda other: (other.kind, other.name)))


def metrics_target(pod: PodRecord, spec: MetricsSpec, found: Resolution | None) -> MetricsTarget:
    """Where the pod's metrics are: as the pool says, else as its server was started."""
    engine = found.engine if found is not None else None
    kind = engine.kind if isinstance(engine, EngineConfig) else EngineKind.VLLM
    port = spec.port or (found.port if found is not None else None) or DEFAULT_PORTS[kind]
    return MetricsTarget(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        pod_ip=pod.ip,
        port=port,
        path=spec.path or DEFAULT_PATHS[kind],
        served_model_name=spec.served_model_name,
    )


def no_source(name: str, sources: Mapping[str, MetricsSource]) -> Unknown:
    """The answer for pods whose pool names a source that the operator does not have."""
    known = ", ".join(sorted(sources))
    told = f"spec.metrics.sourceName: {name} is not configured for this operator; it has {known}"
    return Unknown("SourceNotConfigured", told)


def pool_snapshot(
    part: Part,
    view: ClusterView,
    metrics: Mapping[str, Known[PodMetrics] | Unknown],
    nodes: Mapping[str, NodeState] | None,
    *,
    others: Mapping[WorkloadRef, list[PoolKey]],
    at: Callable[[float], float],
) -> PoolSnapshot:
    """The pool's part of the snapshot; `at` turns the API server's stamps into the loop's time."""
    if isinstance(part.spec, Unknown):
        return _blank(part, part.spec, at)
    found = part.found
    if part.workload is None or found is None:
        told = (
            f"spec.targets[0].ref: {part.spec.target.ref_kind}/{part.spec.target.ref_name} does "
            f"not exist in namespace {part.pool.key.namespace}: create it or correct the name"
        )
        return _blank(part, Unknown(reasons.TARGET_NOT_FOUND, told), at)
    notes = parse_annotations(part.pool.annotations)
    return PoolSnapshot(
        key=part.pool.key,
        uid=part.pool.uid,
        generation=part.pool.generation,
        spec=part.spec,
        target=target_state(part.workload, part.pods, at),
        shape=found.shape,
        engine=found.engine,
        device=found.device,
        device_resource=found.device_resource,
        devices_per_pod=found.devices_per_pod,
        pods=tuple(pod_state(pod, metrics[pod.uid], nodes, at) for pod in part.pods),
        other_scalers=_other_scalers(part, view, others),
        contradictions=(*found.contradictions, *found.notes),
        hold_until=None if notes.hold_until is None else at(notes.hold_until),
        freeze=notes.freeze,
        annotation_error=notes.error,
    )


def _blank(part: Part, why: Unknown, at: Callable[[float], float]) -> PoolSnapshot:
    """A pool of which no more is known than why."""
    notes = parse_annotations(part.pool.annotations)
    return PoolSnapshot(
        key=part.pool.key,
        uid=part.pool.uid,
        generation=part.pool.generation,
        spec=part.spec,
        target=why,
        shape=why,
        engine=why,
        device=why,
        hold_until=None if notes.hold_until is None else at(notes.hold_until),
        freeze=notes.freeze,
        annotation_error=notes.error,
    )
