"""One writer: what is found on the target, and whose it is."""

from kvscale.core.decide import reasons
from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import ScalingEvent
from kvscale.core.scaling import PolicyType, Scaling, ScalingPolicy, ScalingRules
from kvscale.core.values import Unknown
from support.scenario import KEY, T, one, pods, pool, sample, settled, snapshot, spec, target

TWO_IN_TEN_MINUTES = Scaling(
    max_replicas=10, scale_up=ScalingRules((ScalingPolicy(PolicyType.PODS, 2, 600),), 0)
)
GONE = Unknown("ScrapeFailed", "connection refused")
FULL = sample(usage=1.0, running=20, waiting=40)


def found(manager):
    """A pool that remembers 1 replica and finds 3, full, with that manager of the count."""
    return snapshot(
        pool(
            3,
            pods(3, FULL),
            spec=spec(scaling=TWO_IN_TEN_MINUTES),
            target=target(3, replicas_manager=manager),
        )
    )


def test_a_write_of_ours_that_nobody_remembers_counts_against_the_pace():
    decisions, state = decide(found("kvscale"), settled(1), T)
    memory = state.pools[KEY]
    assert memory.scalings == (ScalingEvent(T, 1, 3, reasons.FOUND_WRITTEN),)
    assert (memory.last_written, memory.last_written_at, memory.foreign) == (3, T, ())
    assert (decisions[0].write, decisions[0].reason) == (None, reasons.SCALE_UP_LIMIT)


def test_a_write_of_somebody_else_does_not():
    decision = one(found("kubectl"), settled(1))
    assert decision.write == 5


def test_edits_of_a_count_that_was_never_ours_are_no_conflict():
    """A person who tries 2, 3 and 4 in a row argues with nobody: nothing was written by us."""
    state = settled(2, last_written_at=None)
    for at, count in enumerate((3, 4, 3)):
        seen = target(count, replicas_manager="kubectl", resource_version=str(101 + at))
        _, state = decide(snapshot(pool(count, pods(count, GONE), target=seen)), state, T + at)
    assert state.pools[KEY].foreign == ()
    assert state.pools[KEY].last_written == 3
