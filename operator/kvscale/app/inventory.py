"""What the nodes say of their devices, asked once for all pools.

A thousand pools ask a handful of questions: which device has a node that admits a pod like this?
Each costs a walk over all nodes, so an answer is kept for as long as the nodes say the same.
"""

from collections.abc import Sequence
from dataclasses import replace

from kvscale.core.decide.fit import admits
from kvscale.core.devices.device import Device
from kvscale.core.devices.labels import device_of_node
from kvscale.core.inventory import NodeState, PodNeeds
from kvscale.core.values import Unknown

Answers = tuple[tuple[str, Device | Unknown], ...]
"""By node: its device."""


class Inventory:
    """Nodes, and what was found out of them."""

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        # What a node's device is does not change while it drains or is not ready.
        self._nodes = [
            node if node.ready and not node.draining else replace(node, ready=True, draining=False)
            for node in nodes
        ]
        self._said = _said(nodes)
        self._answers: dict[object, Answers] = {}

    def says_the_same(self, nodes: Sequence[NodeState]) -> bool:
        """Whether those nodes would give the same answers."""
        return self._said == _said(nodes)

    def devices(self, needs: PodNeeds, resource: str) -> Answers:
        """The device that one unit of `resource` is, on each node that takes such a pod at all."""
        selector = frozenset(needs.node_selector.items())
        question = (selector, needs.affinity_terms, needs.tolerations, resource)
        known = self._answers.get(question)
        if known is None:
            known = tuple(
                (node.name, device_of_node(node.labels, node.allocatable, resource))
                for node in self._nodes
                if admits(node, needs)
            )
            self._answers[question] = known
        return known


def _said(nodes: Sequence[NodeState]) -> list[tuple[object, ...]]:
    return [(node.name, node.labels, node.taints, node.allocatable) for node in nodes]
