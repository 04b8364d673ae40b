"""Stock-outs: replicas that no node came for are given back, and asked for again later (rule 6)."""

from dataclasses import replace

from kvscale.core.decide.assessment import Assessment
from kvscale.core.decide.departure import those_that_stay

BACKOFF_FIRST_SECONDS = 300.0
BACKOFF_MOST_SECONDS = 1800.0
"""A stock-out backs off 5 to 30 minutes, as cluster-autoscaler's node-group backoff does."""


def back_off(found: Assessment, now: float) -> Assessment:
    """Start, lengthen or end the stock-out's backoff, as the overdue pods say."""
    memory = found.memory
    if now < memory.backoff_until:
        return found
    if found.supply.overdue:
        seconds = min(BACKOFF_MOST_SECONDS, max(BACKOFF_FIRST_SECONDS, 2 * memory.backoff_seconds))
        memory = replace(memory, backoff_until=now + seconds, backoff_seconds=seconds)
    elif memory.backoff_seconds and _overcome(found):
        memory = replace(memory, backoff_seconds=0.0)
    return replace(found, memory=memory)


def _overcome(found: Assessment) -> bool:
    """Whether nodes came since: for all that is needed, or for all that was asked for again.

    That every replica has a node says nothing by itself: those without one were given back.
    """
    placed, memory = found.supply.placed, found.memory
    if placed >= found.need.wanted:
        return True
    last = memory.scalings[-1] if memory.scalings else None
    asked_again = last is not None and last.at >= memory.backoff_until and last.after > last.before
    return asked_again and placed >= found.target.replicas


def keepable(found: Assessment, count: int, low: int, now: float) -> int:
    """The count without the replicas that no node came for; `count` outside a backoff.

    They hold nothing, so no proof is due; but their controller must have no other pod to take:
    a rollout's surge pod is none of the count, and a StatefulSet ends with its highest ordinal.
    """
    if now >= found.memory.backoff_until:
        return count
    overdue = {pod.uid for pod in found.supply.overdue}
    pods = found.pool.pods
    alive = {pod.uid: pod for pod in those_that_stay(found.target.kind, pods, len(pods))}
    least = count
    for fewer in range(count - 1, max(low, count - len(overdue)) - 1, -1):
        stay = {pod.uid for pod in those_that_stay(found.target.kind, pods, fewer)}
        goes = [pod for uid, pod in alive.items() if uid not in stay]
        if any(pod.node for pod in goes):
            break
        least = fewer
    return least
