"""Other controllers of a replica count: HorizontalPodAutoscalers and KEDA's ScaledObjects."""

from kvscale.adapters.kubernetes.project.fields import Raw, mapping, required, text, whole
from kvscale.core.inventory import OtherScaler
from kvscale.records import ScalerRecord, WorkloadRef

_PAUSED = "autoscaling.keda.sh/paused"
_PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


def project_hpa(raw: Raw) -> ScalerRecord:
    """An HPA (autoscaling/v2) and what it scales.

    Raises:
        Malformed: it has no identity.
    """
    metadata, spec, status = mapping(raw, "metadata"), mapping(raw, "spec"), mapping(raw, "status")
    target = mapping(spec, "scaleTargetRef")
    return ScalerRecord(
        target=WorkloadRef(
            text(target, "kind"), required(metadata, "namespace"), text(target, "name")
        ),
        scaler=OtherScaler(
            kind="HorizontalPodAutoscaler",
            name=required(metadata, "name"),
            min_replicas=whole(spec, "minReplicas"),
            max_replicas=whole(spec, "maxReplicas"),
            desired_replicas=whole(status, "desiredReplicas"),
        ),
    )


def project_scaled_object(raw: Raw) -> ScalerRecord | None:
    """A ScaledObject (keda.sh/v1alpha1) and what it scales.

    None while it is paused without a count: KEDA then writes nothing and removes its HPA, which
    is how a target is handed over (KEDA v2.21 docs, "Pausing autoscaling").

    Raises:
        Malformed: it has no identity.
    """
    metadata, spec = mapping(raw, "metadata"), mapping(raw, "spec")
    annotations = mapping(metadata, "annotations")
    if annotations.get(_PAUSED) == "true" and _PAUSED_AT not in annotations:
        return None
    target = mapping(spec, "scaleTargetRef")
    return ScalerRecord(
        target=WorkloadRef(
            text(target, "kind") or "Deployment",
            required(metadata, "namespace"),
            text(target, "name"),
        ),
        scaler=OtherScaler(
            kind="ScaledObject",
            name=required(metadata, "name"),
            min_replicas=whole(spec, "minReplicaCount"),
            max_replicas=whole(spec, "maxReplicaCount"),
        ),
    )
