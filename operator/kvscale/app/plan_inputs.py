"""A pool's spec and workload as a plan takes them, where there is no cluster to look at."""

from dataclasses import replace

from kvscale.core.engines.config import EngineKind
from kvscale.core.inventory import PodNeeds
from kvscale.core.spec import PoolSpec
from kvscale.records import WorkloadRecord, WorkloadRef


def for_planning(spec: PoolSpec, gpu: str | None, *, manifest: bool) -> PoolSpec:
    """The spec with what is given beside it."""
    target = spec.target
    if gpu is not None:
        devices = replace(target.devices, product=gpu, memory_bytes=None)
        target = replace(target, devices=devices)
    if not manifest:
        kind = target.engine.kind or EngineKind.VLLM
        target = replace(target, container_name="", engine=replace(target.engine, kind=kind))
    return replace(spec, target=target)


def blank_workload(spec: PoolSpec) -> WorkloadRecord:
    """A workload of which nothing is known but its name."""
    return WorkloadRecord(
        ref=WorkloadRef(spec.target.ref_kind, "", spec.target.ref_name),
        uid="",
        resource_version="",
        generation=0,
        observed_generation=0,
        replicas=0,
        status_replicas=0,
        ready_replicas=0,
        available_replicas=0,
        updated_replicas=0,
        paused=False,
        selector={},
        containers=(),
        needs=PodNeeds(),
        template_key="",
    )
