"""Which pods stay when the count is lowered: their controller chooses, not we.

Source: kubernetes v1.37 pkg/controller/controller_utils.go (`ActivePodsWithRanks`: pods without a
node go first, then those that are not ready) and pkg/controller/statefulset/
stateful_set_control.go (the highest ordinal goes first, whatever its state).
"""

import re
from collections.abc import Sequence

from kvscale.core.decide.supply import Supply
from kvscale.core.snapshot import PodState

STATEFUL_SET = "StatefulSet"

_ORDINAL = re.compile(r"-([0-9]+)$")


def those_that_stay(kind: str, pods: Sequence[PodState], count: int) -> tuple[PodState, ...]:
    """The pods that a controller of this kind keeps when it is told to keep `count`."""
    alive = [pod for pod in pods if not (pod.deleting or pod.failed)]
    if kind == STATEFUL_SET:
        alive.sort(key=_ordinal)
    else:
        alive.sort(key=lambda pod: (not pod.node, not pod.ready, pod.name))
    return tuple(alive[: max(0, count)])


def _ordinal(pod: PodState) -> tuple[int, str]:
    found = _ORDINAL.search(pod.name)
    return (int(found[1]) if found else 0, pod.name)


def serving_after(kind: str, pods: Sequence[PodState], supply: Supply, count: int) -> int:
    """Healthy replicas of the `count` that would stay, at the worst.

    A Deployment takes ready pods without a look at our health: those that leave with their node
    or emit nothing may stay, and healthy ones go.
    """
    stay = those_that_stay(kind, pods, count)
    healthy = {pod.uid for pod in supply.ready}
    if kind == STATEFUL_SET:
        return sum(pod.uid in healthy for pod in stay)
    doubtful = sum(
        pod.ready and not (pod.deleting or pod.failed) and pod.uid not in healthy for pod in pods
    )
    return max(0, sum(pod.ready for pod in stay) - doubtful)
