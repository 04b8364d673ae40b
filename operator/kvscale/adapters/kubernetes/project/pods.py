"""Pods."""

from collections.abc import Iterator, Mapping

from kvscale.adapters.kubernetes.project.fields import (
    Malformed,
    Raw,
    labels,
    mapping,
    objects,
    required,
    seconds,
    shared,
    text,
    whole,
)
from kvscale.adapters.kubernetes.project.quantities import pod_requests
from kvscale.records import TERMINAL_PHASES, PodRecord

_ON_THE_WAY = frozenset({"PodInitializing", "ContainerCreating"})
_NOTHING: Mapping[str, int] = {}


def project_pod(raw: Raw) -> PodRecord:
    """A pod's record.

    Raises:
        Malformed: it has no identity or creation time, or a quantity cannot be read.
    """
    metadata, spec, status = mapping(raw, "metadata"), mapping(raw, "spec"), mapping(raw, "status")
    created = seconds(metadata, "creationTimestamp")
    if created is None:
        raise Malformed("metadata.creationTimestamp is absent")
    conditions = {text(condition, "type"): condition for condition in objects(status, "conditions")}
    scheduled = conditions.get("PodScheduled", {})
    ready = conditions.get("Ready", {})
    owner_kind, owner_name = _controller(metadata)
    phase = text(status, "phase")
    return PodRecord(
        namespace=shared(required(metadata, "namespace")),
        name=required(metadata, "name"),
        uid=required(metadata, "uid"),
        labels=labels(metadata, "labels"),
        owner_kind=shared(owner_kind),
        owner_name=shared(owner_name),
        node=shared(text(spec, "nodeName")),
        ip=text(status, "podIP"),
        phase=shared(phase),
        ready=ready.get("status") == "True" and phase == "Running",
        deleting="deletionTimestamp" in metadata,
        created_at=created,
        scheduled_at=_since(scheduled, "True"),
        ready_at=_since(ready, "True"),
        unschedulable_at=(
            _since(scheduled, "False") if scheduled.get("reason") == "Unschedulable" else None
        ),
        waiting_reason=shared(_waiting_reason(status)),
        restarts=sum(whole(state, "restartCount") or 0 for state in _container_states(status)),
        # A pod that has ended holds nothing on its node any more.
        requests=_NOTHING if phase in TERMINAL_PHASES else pod_requests(spec),
    )


def _since(condition: Raw, state: str) -> float | None:
    """When the condition came to say so; None if it does not say so now."""
    if condition.get("status") != state:
        return None
    return seconds(condition, "lastTransitionTime")


def _controller(metadata: Raw) -> tuple[str, str]:
    for owner in objects(metadata, "ownerReferences"):
        if owner.get("controller") is True:
            return text(owner, "kind"), text(owner, "name")
    return "", ""


def _container_states(status: Raw) -> Iterator[Raw]:
    yield from objects(status, "initContainerStatuses")
    yield from objects(status, "containerStatuses")


def _waiting_reason(status: Raw) -> str:
    """The first reason that means trouble, else the first one ("ContainerCreating"), else ""."""
    first = ""
    for container in _container_states(status):
        reason = text(mapping(mapping(container, "state"), "waiting"), "reason")
        if reason and reason not in _ON_THE_WAY:
            return reason
        first = first or reason
    return first
