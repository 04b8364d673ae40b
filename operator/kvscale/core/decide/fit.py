"""Whether a pod fits a node, by the scheduler's own filters.

Source: kubernetes v1.37 pkg/scheduler/framework/plugins/{nodeaffinity,tainttoleration,
noderesources}. Preferred terms are not read: they rank nodes, they exclude none.
"""

from collections.abc import Mapping

from kvscale.core.inventory import NodeState, PodNeeds, Requirement, Taint, Toleration

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def admits(node: NodeState, needs: PodNeeds) -> bool:
    """Whether the node takes such a pod at all, room aside."""
    return (
        node.ready
        and not node.draining
        and all(node.labels.get(key) == value for key, value in needs.node_selector.items())
        and (not needs.affinity_terms or any(_term(node, t) for t in needs.affinity_terms))
        and all(_tolerated(taint, needs.tolerations) for taint in node.taints)
    )


def has_room(free: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    """Whether every requested amount is free; a resource the node does not offer is 0."""
    return all(free.get(name, 0) >= amount for name, amount in requests.items() if amount > 0)


def _term(node: NodeState, term: tuple[Requirement, ...]) -> bool:
    # An empty term matches nothing (component-helpers nodeaffinity: isEmptyNodeSelectorTerm).
    return bool(term) and all(_matches(node, requirement) for requirement in term)


def _matches(node: NodeState, requirement: Requirement) -> bool:
    value = node.labels.get(requirement.key)
    if requirement.key == "metadata.name":
        value = node.name
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    try:
        left, right = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    if taint.effect not in HARD_EFFECTS:
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return toleration.key == taint.key and toleration.value == taint.value
