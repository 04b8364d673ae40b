"""Deployments and StatefulSets: the counts, the pod template, and who last set the count."""

from hashlib import blake2b

import orjson

from kvscale.adapters.kubernetes.project.fields import (
    Raw,
    labels,
    mapping,
    objects,
    required,
    seconds,
    text,
    texts,
    whole,
)
from kvscale.adapters.kubernetes.project.quantities import container_requests, pod_requests
from kvscale.core.inventory import PodNeeds, Requirement, Toleration
from kvscale.records import ContainerRecord, EnvVar, WorkloadRecord, WorkloadRef


def project_workload(kind: str, raw: Raw) -> WorkloadRecord:
    """The record of a Deployment or StatefulSet; lists do not say the kind, so the caller does.

    Raises:
        Malformed: it has no identity, or a quantity or a time cannot be read.
    """
    metadata, spec, status = mapping(raw, "metadata"), mapping(raw, "spec"), mapping(raw, "status")
    template = mapping(spec, "template")
    pod = mapping(template, "spec")
    replicas = whole(spec, "replicas")
    manager, changed_at = replicas_owner(metadata)
    return WorkloadRecord(
        ref=WorkloadRef(kind, required(metadata, "namespace"), required(metadata, "name")),
        uid=required(metadata, "uid"),
        resource_version=text(metadata, "resourceVersion"),
        generation=whole(metadata, "generation") or 0,
        observed_generation=whole(status, "observedGeneration") or 0,
        replicas=1 if replicas is None else replicas,
        status_replicas=whole(status, "replicas") or 0,
        ready_replicas=whole(status, "readyReplicas") or 0,
        available_replicas=whole(status, "availableReplicas") or 0,
        updated_replicas=whole(status, "updatedReplicas") or 0,
        paused=spec.get("paused") is True,
        selector=_selector_labels(mapping(spec, "selector")),
        containers=tuple(_container(container) for container in objects(pod, "containers")),
        needs=_needs(pod),
        template_key=template_key(template),
        replicas_manager=manager,
        replicas_changed_at=changed_at,
    )


def template_key(template: Raw) -> str:
    """16 hex digits that change when, and only when, the pod template does."""
    canonical = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    return blake2b(canonical, digest_size=8).hexdigest()


def replicas_owner(metadata: Raw) -> tuple[str, float | None]:
    """The field manager that last wrote `.spec.replicas`, and when (epoch seconds).

    A write of /scale and a write of the workload both show as `f:spec: {f:replicas: {}}`, but the
    server notes no time for the former (seen with kubernetes v1.37): None then. Several managers
    own the field when they agree on its value; the newest of them is the answer.

    Raises:
        Malformed: a time cannot be read.
    """
    manager, at = "", None
    for entry in objects(metadata, "managedFields"):
        if "f:replicas" not in mapping(mapping(entry, "fieldsV1"), "f:spec"):
            continue
        time = seconds(entry, "time")
        if at is None or (time is not None and time >= at):
            manager, at = text(entry, "manager"), time
    return manager, at


def _selector_labels(selector: Raw) -> dict[str, str]:
    """`matchLabels`, and the expressions that say the same (`In` with a single value)."""
    found = dict(labels(selector, "matchLabels"))
    for expression in objects(selector, "matchExpressions"):
        values = texts(expression, "values")
        if expression.get("operator") == "In" and len(values) == 1:
            found[text(expression, "key")] = values[0]
    return found


def _container(container: Raw) -> ContainerRecord:
    return ContainerRecord(
        name=text(container, "name"),
        image=text(container, "image"),
        command=texts(container, "command"),
        args=texts(container, "args"),
        env=tuple(
            EnvVar(text(var, "name"), None if "valueFrom" in var else text(var, "value"))
            for var in objects(container, "env")
        ),
        requests=container_requests(container),
        ports=tuple(
            port
            for entry in objects(container, "ports")
            if (port := whole(entry, "containerPort")) is not None
        ),
    )


def _needs(pod: Raw) -> PodNeeds:
    affinity = mapping(mapping(pod, "affinity"), "nodeAffinity")
    required_terms = mapping(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    return PodNeeds(
        requests=pod_requests(pod),
        node_selector=labels(pod, "nodeSelector"),
        affinity_terms=tuple(_term(term) for term in objects(required_terms, "nodeSelectorTerms")),
        tolerations=tuple(
            Toleration(
                key=text(toleration, "key"),
                operator=text(toleration, "operator") or "Equal",
                value=text(toleration, "value"),
                effect=text(toleration, "effect"),
            )
            for toleration in objects(pod, "tolerations")
        ),
    )


def _term(term: Raw) -> tuple[Requirement, ...]:
    """All expressions of a term; `matchFields` (only `metadata.name` exists) read as labels."""
    expressions = objects(term, "matchExpressions") + objects(term, "matchFields")
    return tuple(
        Requirement(text(entry, "key"), text(entry, "operator"), texts(entry, "values"))
        for entry in expressions
    )
