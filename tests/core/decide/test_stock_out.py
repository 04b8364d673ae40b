"""No node, no quota: what is asked for, given back, and tried again."""

from dataclasses import replace

from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import ScalingEvent
from kvscale.core.inventory import Quota
from kvscale.core.scaling import Scaling
from support.course import Course
from support.pair import Pair
from support.scenario import (
    GPU,
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

PRESSED = sample(1.0, 50, 200)
HOURS = 3600.0


def test_a_stock_out_tries_again_after_five_then_ten_then_twenty_then_thirty_minutes():
    course = Course(load=lambda _: 4000, gpus=1).run(4 * HOURS)
    ups = [at for at, before, after, _ in course.writes if after > before]
    backs = [at for at, before, after, _ in course.writes if after < before]
    assert [after for _, _, after, _ in course.writes][:4] == [3, 1, 3, 1]
    waits = [up - back for back, up in zip(backs, ups[1:], strict=False)]
    assert waits[:4] == [300, 600, 1200, 1800]
    assert set(waits[4:]) <= {1800}


def test_a_stock_out_that_ended_is_forgotten():
    course = Course(load=lambda _: 4000, gpus=1).run(2000)
    course.gpus = 8
    course.run(1200)
    assert course.replicas >= 5
    (memory,) = course.state.pools.values()
    assert memory.backoff_seconds == 0


def test_nodes_of_old_do_not_end_a_stock_out():
    """Its overdue pods are gone by another hand; the last addition was before it."""
    memory = {"backoff_until": T - 1, "backoff_seconds": 600.0}
    before = settled(1, **memory, scalings=(ScalingEvent(T - 2000, 1, 3),))
    seen = snapshot(pool(1, pods(1, PRESSED)), nodes=(node(gpus=1, used=1),))
    _, after = decide(seen, before, T)
    assert after.pools[KEY].backoff_seconds == 600
    again = settled(1, **memory, scalings=(ScalingEvent(T - 1, 1, 3),))
    _, after = decide(seen, again, T)
    assert after.pools[KEY].backoff_seconds == 0


def test_a_surge_pod_without_a_node_takes_no_serving_pod_away():
    """A rollout on full nodes: the count is 3, three serve, the fourth pod is the surge."""
    old = pods(3, sample(0.8, 40))
    surge = pod("new", ready=False, node="", unschedulable_at=T - 1000, template_hash="v2")
    got = one(
        snapshot(
            pool(3, (*old, surge), target=target(3, progressing=True, template_hash="v2")),
            nodes=(node(gpus=3, used=3),),
        ),
        settled(3),
    )
    assert got.write is None


def test_a_stateful_set_gives_back_from_its_end_alone():
    """Its controller deletes the highest ordinal, whoever is pending."""
    members = (
        pod("llama-0", sample(0.8, 40)),
        pod("llama-1", ready=False, node="", unschedulable_at=T - 1000),
        pod("llama-2", sample(0.8, 40)),
    )
    got = one(
        snapshot(
            pool(3, members, target=target(3, kind="StatefulSet")), nodes=(node(gpus=2, used=2),)
        ),
        settled(3),
    )
    assert got.write is None
    last = (
        members[0],
        replace(members[2], name="llama-1", uid="x"),
        replace(members[1], name="llama-2"),
    )
    got = one(
        snapshot(
            pool(3, last, target=target(3, kind="StatefulSet")), nodes=(node(gpus=2, used=2),)
        ),
        settled(3),
    )
    assert (got.write, got.reason) == (2, "StockOut")


def test_what_a_stateful_set_keeps_must_serve():
    """Ordinals 0 and 1 start, 2 serves: taking one away takes the only one that serves."""
    idle = sample(0.1, 5)
    members = (
        pod("llama-0", ready=False),
        pod("llama-1", ready=False),
        pod("llama-2", idle),
    )
    seen = pool(3, members, target=target(3, kind="StatefulSet"))
    got = one(snapshot(seen), settled(3))
    assert (got.write, got.reason) == (None, "RemovalNotProven")
    deployment = one(snapshot(replace(seen, target=target(3))), settled(3))
    assert deployment.write == 2


def test_a_stateful_sets_last_pod_may_go_with_its_node():
    idle = sample(0.1, 5)
    members = (pod("llama-0", idle), pod("llama-1", idle, draining=True))
    seen = pool(2, members, target=target(2, kind="StatefulSet"))
    assert one(snapshot(seen), settled(2)).write == 1
    assert one(snapshot(replace(seen, target=target(2))), settled(2)).write is None
    first = (pod("llama-0", idle, draining=True), pod("llama-1", idle))
    assert one(snapshot(replace(seen, pods=first)), settled(2)).write is None


def test_failed_pods_hold_no_quota():
    dead = tuple(pod(f"dead{i}", ready=False, failed=True) for i in range(4))
    quota = Quota("default", "gpus", {f"requests.{GPU}": 1}, {f"requests.{GPU}": 1})
    got = one(
        snapshot(
            pool(1, (pod("p0", PRESSED), *dead)), nodes=(node(gpus=8, used=1),), quotas=(quota,)
        ),
        settled(1),
    )
    assert got.counts.placeable == 1
    assert "ResourceQuota/gpus" in got.message


def test_a_raised_minimum_is_written_once_and_waits():
    course = Course(
        load=lambda _: 100, gpus=1, spec=spec(scaling=Scaling(min_replicas=4, max_replicas=10))
    )
    course.run(3 * HOURS)
    assert [(before, after) for _, before, after, _ in course.writes] == [(1, 4)]


def test_two_pools_and_too_few_gpus_do_not_take_turns():
    """Both want three more than there are; neither gives what serves, nor is any handed round."""
    pair = Pair(gpus=3, load=2500).run(1 * HOURS)
    served = pair.placed
    assert sorted(served.values()) == [1, 2]
    pair.run(3 * HOURS)
    assert pair.placed == served
    assert len(pair.writes) <= 4 * 2 * 5, "two tries and returns each, ever more seldom"


def test_the_last_gpu_goes_to_the_pool_that_has_less_of_what_it_wants():
    # What waits for nodes is handed out by the scheduler; what is placeable, by us.
    none_pending = spec(scaling=Scaling(max_replicas=10, max_pending=0))
    pair = Pair(gpus=4, load=2500, spec=none_pending).run(1 * HOURS)
    assert sorted(pair.placed.values()) == [2, 2]
