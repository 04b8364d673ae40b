"""Which of the wanted replicas could run now: devices, quota, and a node that fits (rule 6).

Pools that share GPUs are decided together: one replica at a time goes to the pool that has the
smallest share of what it wants, so that no pool starves by its name. Ties go by key, nodes by
least room left and then by name, so equal snapshots give equal answers.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvscale.core.decide.fit import admits, has_room
from kvscale.core.inventory import NodeState, PodNeeds, Quota
from kvscale.core.spec import PoolKey
from kvscale.core.trace import counted
from kvscale.core.values import Unknown

QUOTA_PREFIX = "requests."

MOST_LOOKED_AT = 10_000
"""Replicas of one pool that are placed one by one: as many as a pool may ask for. A workload that
somebody else scaled to two thousand million must not hold up the round; what is beyond counts as
placeable."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pool wants of the nodes.

    Attributes:
        placed: replicas that have a node already.
        created: replicas whose pods exist, with or without a node: quota is charged already.
        wanted: replicas in all.
        device_resource: for which of the requests a node without room is called short.
    """

    key: PoolKey
    needs: PodNeeds
    placed: int
    created: int
    wanted: int
    device_resource: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer for one pool.

    Attributes:
        placeable: replicas that run or could; None: nothing is known that limits them.
        limit: what stopped the next one, for a person; "" when every wanted replica fits.
    """

    placeable: int | None
    limit: str = ""


def place(
    wishes: Sequence[Wish],
    nodes: tuple[NodeState, ...] | Unknown,
    quotas: tuple[Quota, ...] | Unknown,
) -> Mapping[PoolKey, Placement]:
    """Place the wanted replicas of all pools; unknown nodes or quotas do not limit."""
    rooms = None if isinstance(nodes, Unknown) else _Rooms(nodes)
    budget = _Budget(() if isinstance(quotas, Unknown) else quotas)
    counts = {wish.key: wish.placed for wish in wishes}
    limits = {wish.key: "" for wish in wishes}
    queue = [(_share(wish, wish.placed), wish.key, wish) for wish in wishes if _short(wish)]
    heapq.heapify(queue)
    while queue:
        _, key, wish = heapq.heappop(queue)
        is_new = counts[key] >= wish.created
        why = budget.lacks(wish) if is_new else ""
        if not why and rooms is not None:
            why = rooms.take(wish)
        if why:
            limits[key] = why
            continue
        if is_new:
            budget.take(wish)
        counts[key] += 1
        if counts[key] - wish.placed >= MOST_LOOKED_AT:
            counts[key] = wish.wanted
        if counts[key] < wish.wanted:
            heapq.heappush(queue, (_share(wish, counts[key]), key, wish))
    return {
        wish.key: Placement(
            None if rooms is None and not limits[wish.key] else counts[wish.key],
            limits[wish.key],
        )
        for wish in wishes
    }


def _short(wish: Wish) -> bool:
    return wish.placed < wish.wanted


def _share(wish: Wish, placed: int) -> Fraction:
    return Fraction(placed, wish.wanted)


Constraints = tuple[frozenset[tuple[str, str]], object, object]


class _Rooms:
    """Free room of the nodes while replicas are being placed.

    Room only shrinks, and many pools ask for the same kind of node. So what is found out is kept:
    the nodes that admit a kind of pod, those of them that still had room for one when last asked,
    and why there was none (until somebody took room again).
    """

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.name)
        self._free: dict[str, dict[str, int]] = {
            node.name: {
                name: amount - node.requested.get(name, 0)
                for name, amount in node.allocatable.items()
            }
            for node in self._nodes
        }
        self._admitting: dict[Constraints, list[str]] = {}
        self._fitting: dict[object, list[str]] = {}
        self._refusals: dict[object, tuple[int, str]] = {}
        self._taken = 0

    def take(self, wish: Wish) -> str:
        """Take room for one replica on the fullest node that fits; else say why there is none."""
        needs = wish.needs
        constraints = (
            frozenset(needs.node_selector.items()), needs.affinity_terms, needs.tolerations,
        )  # fmt: skip
        kind = (constraints, frozenset(needs.requests.items()))
        candidates = self._fitting.get(kind)
        if candidates is None:
            candidates = self._admit(constraints, needs)
        fitting = [name for name in candidates if has_room(self._free[name], needs.requests)]
        self._fitting[kind] = fitting
        if not fitting:
            return self._refuse(kind, constraints, needs)
        device = wish.device_resource
        best = min(fitting, key=lambda name: (self._free[name].get(device, 0), name))
        free = self._free[best]
        for resource, amount in needs.requests.items():
            if amount > 0:
                free[resource] -= amount
        self._taken += 1
        return ""

    def _admit(self, constraints: Constraints, needs: PodNeeds) -> list[str]:
        known = self._admitting.get(constraints)
        if known is None:
            known = [node.name for node in self._nodes if admits(node, needs)]
            self._admitting[constraints] = known
        return known

    def _refuse(self, kind: object, constraints: Constraints, needs: PodNeeds) -> str:
        taken, why = self._refusals.get(kind, (-1, ""))
        if taken != self._taken:
            why = self._why_not(self._admitting[constraints], needs.requests)
            self._refusals[kind] = (self._taken, why)
        return why

    def _why_not(self, admitting: Sequence[str], requests: Mapping[str, int]) -> str:
        if not admitting:
            return (
                f"none of {counted(len(self._nodes), 'node')} admits the pod (node selector, "
                f"affinity, taints, readiness)"
            )
        short = sorted(
            name
            for name, amount in requests.items()
            if amount > 0 and all(self._free[node].get(name, 0) < amount for node in admitting)
        )
        what = ", ".join(short) if short else "one node with all that a pod requests"
        return f"of {counted(len(admitting), 'node')} that the pod may run on none has free {what}"


class _Budget:
    """What the quotas of each namespace still allow."""

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self._left: dict[str, list[tuple[str, dict[str, int]]]] = {}
        for quota in quotas:
            left = {name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()}
            self._left.setdefault(quota.namespace, []).append((quota.name, left))

    def lacks(self, wish: Wish) -> str:
        """Why the namespace's quotas refuse one more replica; "" if they do not."""
        for quota, left in self._left.get(wish.key.namespace, []):
            for name, amount in _charged(wish.needs.requests, left):
                if left[name] < amount:
                    return f"ResourceQuota/{quota} has {max(0, left[name])} left of {name}"
        return ""

    def take(self, wish: Wish) -> None:
        """Charge one replica."""
        for _, left in self._left.get(wish.key.namespace, []):
            for name, amount in _charged(wish.needs.requests, left):
                left[name] -= amount


def _charged(requests: Mapping[str, int], left: Mapping[str, int]) -> list[tuple[str, int]]:
    """The quota's entries that a pod with these requests is charged to."""
    charged = [("pods", 1), ("count/pods", 1)]
    for name, amount in requests.items():
        charged += [(name, amount), (QUOTA_PREFIX + name, amount)]
    merged = dict(charged)
    return [(name, amount) for name, amount in merged.items() if name in left]
