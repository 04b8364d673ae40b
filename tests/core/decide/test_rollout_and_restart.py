"""Pods of two revisions, clocks that differ, and a process that starts anew."""

import itertools
from dataclasses import replace

import pytest

from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Status
from kvscale.core.decide.state import EngineProgress, State
from kvscale.core.scaling import Actuation, PolicyType, Scaling, ScalingPolicy, ScalingRules
from kvscale.core.spec import Freeze, Mode
from support.course import Course
from support.scenario import (
    KEY,
    T,
    node,
    one,
    pod,
    pods,
    pool,
    sample,
    settled,
    snapshot,
    spec,
    target,
)

HUNDRED = spec(scaling=Scaling(max_replicas=100))


def condition(decision, name):
    return next(c for c in decision.conditions if c.type == name)


# --- two revisions ----------------------------------------------------------------------------


def rollout(step, usage=0.6, running=30):
    """Four pods of 1,000 blocks give way to four of 500, one by one; the load stays 2,400."""
    old = pods(4 - step, sample(usage, running))
    new = tuple(
        pod(f"n{i}", sample(1.0, 25, 5, blocks=501), template_hash="v2") for i in range(step)
    )
    hash_now = "v2" if step else "v1"
    seen = target(4, progressing=0 < step < 4, template_hash=hash_now)
    return snapshot(pool(4, (*old, *new), target=seen, spec=HUNDRED), at=T + step)


def test_a_rollout_is_sized_by_the_new_revision_and_counted_by_each_ones_own_blocks():
    # step 2: used 2 * 600 + 2 * 500, waiting 10 * 20; N 60 + 50 + 10: 2,400 + 361 over 425 a
    # replica of the new revision = 6.5 -> 7
    got = one(rollout(2), settled(4))
    assert (got.counts.wanted, got.write) == (7, 7)
    assert got.demand.used_blocks == 2200
    # ahead of its first pod there is the old revision's ceiling alone: 2,400 + 361 over 850
    assert one(rollout(0), settled(4)).counts.wanted == 4


def test_nothing_is_removed_while_all_pods_roll():
    state = settled(4)
    for step in range(1, 4):
        (got,), state = decide(rollout(step, usage=0.05, running=2), state, T + step)
        assert got.counts.desired >= 4, step


def test_a_revision_that_has_not_reported_is_sized_by_the_newest_report():
    starting = pod("n0", ready=False, template_hash="v2")
    seen = target(4, progressing=True, template_hash="v2")
    got = one(snapshot(pool(4, (*pods(4, sample(0.6, 30)), starting), target=seen)), settled(4))
    # The spare pod of a rollout is no fifth replica of need.
    assert (got.counts.wanted, got.counts.starting, got.write) == (4, 1, None)


def test_a_pod_that_starts_is_counted_once():
    course = Course(load=lambda _: 2500, startup=300, spec=HUNDRED).run(295)
    assert [(before, after) for _, before, after, _ in course.writes] == [(1, 4)]
    course.run(600)
    assert len(course.writes) == 1


# --- silence ----------------------------------------------------------------------------------


def silent(seen, seconds):
    """Requests run, counters stand still."""
    if not seen.ready:
        return seen
    frozen = sample(0.4, 20, generated=5.0, prompted=5.0)
    return replace(seen, metrics=replace(seen.metrics, value=(frozen,)))


def test_silence_of_all_holds_and_a_restart_takes_nothing_away():
    course = Course(load=lambda _: 800, replicas=3, oddity=silent).run(300)
    assert condition(course.last, "MetricsAvailable").reason == "EnginesSilent"
    for _ in range(5):
        course.restart()
        course.run(290)
    assert course.writes == []


def test_a_request_that_has_just_come_is_no_silence():
    """Idle for a minute, then a prefill: with samples a minute apart no token is seen of it yet."""
    idle = EngineProgress(500.0, 0.0, 9.0, T - 60, busy=False)
    state = settled(1, progress={"uid-p0/0": idle})
    got = one(snapshot(pool(1, pods(1, sample(0.1, 1, generated=500.0, prompted=9.0)))), state)
    assert got.counts.ready == 1
    assert got.write is None


# --- restart ----------------------------------------------------------------------------------


def test_a_restart_every_five_minutes_never_removes_and_always_adds():
    course = Course(load=lambda t: 100 if t < 3000 else 2500, replicas=3)
    for _ in range(10):
        course.run(295)
        course.restart()
    assert course.writes == []
    course.run(100)
    assert [after for _, _, after, _ in course.writes] == [4]


def test_a_restart_in_a_stock_out_gives_back_and_tries_but_never_what_serves():
    course = Course(load=lambda _: 4000, gpus=1)
    for _ in range(20):
        course.run(450)
        course.restart()
        assert course.replicas in {1, 3}
    assert all(after == 1 for _, before, after, _ in course.writes if after < before)


def test_the_pace_upwards_survives_a_restart():
    slow = ScalingRules((ScalingPolicy(PolicyType.PODS, 1, 600),), 0)
    course = Course(load=lambda _: 6000, startup=5000, spec=spec(scaling=Scaling(scale_up=slow)))
    for _ in range(8):
        course.run(300)
        course.restart()
    times = [at for at, *_ in course.writes]
    assert all(b - a >= 600 for a, b in itertools.pairwise(times))
    assert len(times) == 4


# --- clocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [-600.0, 0.0, 600.0])
def test_two_foreign_changes_are_a_conflict_whatever_the_api_servers_clock_says(skew):
    """Argo CD puts 2 back within a minute of every write of ours; its clock is the API server's."""
    state, now, version = settled(2), T, 100
    conflicts = []
    for round_ in range(6):
        for count, manager, at in ((2, "argocd-controller", now), (3, "kvscale", now + 5)):
            version += 1
            seen = target(
                count,
                resource_version=str(version),
                replicas_manager=manager if round_ or count == 3 else "",
                replicas_changed_at=at + skew,
            )
            members = pods(2, sample(0.9, 45), at=at)
            (got,), state = decide(snapshot(pool(count, members, target=seen), at=at), state, at)
            conflicts.append(got.reason == "ConflictingWriter")
            memory = state.pools[KEY]
            if count == 2 and not any(conflicts):
                assert got.write == 3
                written = replace(memory, last_written=3, last_written_at=at)
                state = State(pools={KEY: replace(written, write_base_version=str(version))})
        now += 30
        if any(conflicts):
            break
    assert any(conflicts)


def test_a_loop_whose_time_jumps_ahead_decides_no_removal_on_it():
    course = Course(load=lambda t: 100, replicas=3).run(200)
    course.seconds += 86_400
    course.run(60)
    assert course.writes == []


# --- who may write ----------------------------------------------------------------------------

CONFLICT = {"foreign": (T - 100, T - 50), "foreign_manager": "argocd-controller"}


@pytest.mark.parametrize(
    ("changes", "stalled"),
    [
        ({}, True),
        ({"mode": Mode.RECOMMEND}, False),
        ({"scaling": Scaling(actuation=Actuation.EXTERNAL)}, False),
    ],
)
def test_a_manager_in_the_way_stalls_only_who_writes(changes, stalled):
    members = pods(1, sample(1.0, 50, 50))
    got = one(snapshot(pool(1, members, spec=spec(**changes))), settled(1, **CONFLICT))
    assert condition(got, "Stalled").status is (Status.TRUE if stalled else Status.FALSE)
    assert got.write is None


def test_a_freeze_is_stronger_than_the_pools_own_bounds():
    low = spec(scaling=Scaling(min_replicas=4))
    up = one(snapshot(pool(1, pods(1), spec=low, freeze=Freeze.SCALE_UP)), settled(1))
    assert (up.write, up.reason) == (None, "Frozen")
    top = spec(scaling=Scaling(max_replicas=2))
    down = one(snapshot(pool(6, pods(6), spec=top, freeze=Freeze.SCALE_DOWN)), settled(6))
    assert (down.write, down.reason) == (None, "Frozen")
    other = one(snapshot(pool(6, pods(6), spec=top, freeze=Freeze.SCALE_UP)), settled(6))
    assert other.write == 2


def test_a_target_made_anew_is_adopted_and_its_samples_count_from_now():
    state = settled(4, target_uid="uid-old", foreign=(T - 100,))
    got, after = decide(snapshot(pool(1, pods(1, sample(0.4, 20)))), state, T)
    memory = after.pools[KEY]
    assert (memory.last_written, memory.last_written_at, memory.foreign) == (1, None, ())
    assert memory.complete_since == T
    assert memory.had_data
    assert condition(got[0], "Stalled").status is Status.FALSE


def test_a_bound_that_was_declared_knows_no_tolerance():
    """20 are declared, 19 are there: within 10 %, and yet one is missing."""
    least = spec(scaling=Scaling(min_replicas=19, max_replicas=100))
    got = one(snapshot(pool(20, pods(20), spec=least)), settled(20))
    assert (got.write, got.counts.wanted) == (19, 19)


def test_a_node_that_drains_is_waited_for():
    """Which of two ready pods goes is the controller's choice: it may be the healthy one."""
    idle = sample(0.1, 5)
    members = (pod("p0", idle), pod("p1", idle, draining=True))
    got = one(snapshot(pool(2, members), nodes=(node(),)), settled(2))
    assert (got.write, got.reason) == (None, "RemovalNotProven")
