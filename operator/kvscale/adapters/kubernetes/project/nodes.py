"""Nodes, and which of them are on their way out."""

from kvscale.adapters.kubernetes.project.fields import (
    Raw,
    labels,
    mapping,
    objects,
    required,
    shared,
    text,
)
from kvscale.adapters.kubernetes.project.quantities import amounts
from kvscale.core.inventory import NodeState, Taint

LEAVING_TAINTS = frozenset(
    {
        "karpenter.sh/disrupted",  # Karpenter v1
        "karpenter.sh/disruption",  # Karpenter v1beta1
        "ToBeDeletedByClusterAutoscaler",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",  # GKE: spot reclaim and maintenance
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
    }
)
"""Taints that say "this node goes". Not among them: DeletionCandidateOfClusterAutoscaler and
aws-node-termination-handler/rebalance-recommendation, which may be taken back, and the taints that
merely mark spot capacity."""


def project_node(raw: Raw) -> NodeState:
    """A node's record; `requested` is left empty.

    Raises:
        Malformed: it has no name, or a quantity cannot be read.
    """
    metadata, spec, status = mapping(raw, "metadata"), mapping(raw, "spec"), mapping(raw, "status")
    taints = tuple(
        Taint(shared(text(taint, "key")), text(taint, "value"), shared(text(taint, "effect")))
        for taint in objects(spec, "taints")
    )
    return NodeState(
        name=shared(required(metadata, "name")),
        labels=labels(metadata, "labels"),
        allocatable=amounts(status, "allocatable"),
        requested={},
        taints=taints,
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in objects(status, "conditions")
        ),
        draining=(
            spec.get("unschedulable") is True
            or "deletionTimestamp" in metadata
            or any(taint.key in LEAVING_TAINTS for taint in taints)
        ),
    )
