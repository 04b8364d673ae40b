"""Decisions written by hand before the code: what goes in, what must come out, and why.

The arithmetic of each row stands beside it. growth = ceil(1.645 * sqrt(N) * blocks per request),
N running and waiting; one replica is planned for 850 blocks (1,000 usable at 85 %).
"""

from dataclasses import replace

import pytest

from kvscale.core.decide.bounds import sequences_bound
from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Demand, Status
from kvscale.core.decide.state import EngineProgress, Recommendation, ScalingEvent, State
from kvscale.core.inventory import OtherScaler, Quota
from kvscale.core.scaling import (
    Actuation,
    PolicySelect,
    PolicyType,
    Scaling,
    ScalingPolicy,
    ScalingRules,
)
from kvscale.core.spec import Freeze, Mode, PoolKey
from kvscale.core.values import Unknown
from support.scenario import (
    GPU,
    KEY,
    NO_NODES,
    T,
    World,
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

TEN = Scaling(max_replicas=10)


def condition(decision, name):
    return next(c for c in decision.conditions if c.type == name)


def check(decision, desired, reason, *, writes):
    assert (decision.counts.desired, decision.reason) == (desired, reason), decision.message
    assert decision.write == (desired if writes else None)


# --- what the data asks for -------------------------------------------------------------------


def test_the_need_that_is_there_is_left_alone():
    # used 800, N 40, 20 each: growth 209; 1,009 / 850 = 1.19 -> 2
    got = one(snapshot(pool(2, pods(2, sample(0.4, 20)))), settled(2))
    check(got, 2, "AsNeeded", writes=False)
    assert got.binding_bound == "KV"
    assert (got.demand.used_blocks, got.demand.growth_blocks) == (800, 209)


def test_cache_pressure_scales_out():
    # used 1,800, N 90: growth 313; 2,113 / 850 = 2.49 -> 3
    got = one(snapshot(pool(2, pods(2, sample(0.9, 45)))), settled(2))
    check(got, 3, "AsNeeded", writes=True)


def test_waiting_requests_are_demand_in_blocks():
    # used 1,000, 20 each, waiting 50 -> 1,000; N 100: growth 329; 2,329 / 850 = 2.74 -> 3
    got = one(snapshot(pool(1, pods(1, sample(1.0, 50, 50)))), settled(1))
    check(got, 3, "AsNeeded", writes=True)
    assert got.demand.waiting_blocks == 1000


def test_a_drained_cache_with_a_queue_is_load_not_idleness():
    """Preempted requests hold no blocks: usage falls while the pool drowns."""
    # used 100, 20 each, waiting 95 -> 1,900; N 100: growth 329; 2,329 / 850 -> 3
    got = one(snapshot(pool(1, pods(1, sample(0.1, 5, 95)))), settled(1))
    check(got, 3, "AsNeeded", writes=True)


def test_a_small_excess_is_tolerated():
    # used 700, N 35: growth 195; 895 / 850 = 1.05, within 10 % of 1
    got = one(snapshot(pool(1, pods(1, sample(0.7, 35)))), settled(1))
    check(got, 1, "WithinTolerance", writes=False)
    assert condition(got, "ScalingLimited").reason == "WithinTolerance"


def test_two_engines_in_a_pod_are_two_pools_of_blocks():
    both = replace(
        pod("p0"),
        metrics=replace(pod("p0").metrics, value=(sample(0.9, 45), sample(0.1, 5, engine="1"))),
    )
    # used 1,000, N 50: growth 233; 1,233 / 1,700 = 0.73 -> 1
    got = one(snapshot(pool(1, (both,))), settled(1))
    check(got, 1, "AsNeeded", writes=False)


def test_the_smallest_engine_of_a_revision_decides():
    # 501 and 1,001 blocks: used 250 + 500, N 38: growth 201; 951 / (500 at 85 %) = 2.24 -> 3
    members = (pod("p0", sample(0.5, 13, blocks=501)), pod("p1", sample(0.5, 25)))
    for seen in (members, members[::-1]):
        got = one(snapshot(pool(2, seen)), settled(2))
        check(got, 3, "AsNeeded", writes=True)


def test_what_waits_needs_a_place_in_the_batch_too():
    load = Demand(
        100, 0, 0, running=60, waiting=200, preemptions=0, occupancy_milli=0, sampled_at=T
    )
    got = sequences_bound(load, max_num_seqs=64, engines_per_pod=2)
    assert (got.replicas, got.exact_milli) == (3, 2031)  # 260 / 128


def test_an_error_of_a_write_is_over_when_nothing_is_left_to_be_written():
    state = settled(2, write_error="scale to 3: Forbidden")
    (got,), after = decide(snapshot(pool(2, pods(2, sample(0.4, 20)))), state, T)
    assert got.write is None
    assert after.pools[KEY].write_error == ""
    (got,), after = decide(snapshot(pool(2, pods(2, sample(0.9, 45)))), state, T)
    assert got.write == 3
    assert after.pools[KEY].write_error
    assert condition(got, "Ready").reason == "WriteFailed"


# --- unknown is not zero ----------------------------------------------------------------------

GONE = Unknown("ScrapeFailed", "connection refused")


def test_lost_metrics_keep_what_is_there():
    got = one(snapshot(pool(3, pods(3, GONE))), settled(3))
    check(got, 3, "HoldOnUnknown", writes=False)
    assert condition(got, "MetricsAvailable") == replace(
        condition(got, "MetricsAvailable"), status=Status.FALSE, reason="ScrapeFailed"
    )


def test_stale_samples_are_missing_samples():
    got = one(snapshot(pool(3, pods(3, sample(0.0), at=T - 91))), settled(3))
    check(got, 3, "HoldOnUnknown", writes=False)
    assert condition(got, "MetricsAvailable").reason == "StaleSamples"


def test_a_missing_pod_does_not_block_an_addition():
    members = (*pods(2, sample(1.0, 50, 25)), pod("p2", GONE))
    # used 2,000 + waiting 1,000, N 150: growth 403; 3,403 / 850 = 4.0035 -> 5
    got = one(snapshot(pool(3, members)), settled(3))
    check(got, 5, "AsNeeded", writes=True)


def test_a_missing_pod_counts_as_full_for_a_removal():
    members = (*pods(2, sample(0.6, 30)), pod("p2", GONE))
    # known alone: 1,200 + 255 -> 2; with 1,000 more: 2,455 / 850 -> 3
    got = one(snapshot(pool(3, members)), settled(3))
    check(got, 3, "RemovalNotProven", writes=False)
    assert "1 unmeasured" in got.message


def test_the_minimum_wins_without_metrics():
    members = pods(1, GONE)
    got = one(snapshot(pool(1, members, spec=spec(scaling=Scaling(min_replicas=4)))), settled(1))
    check(got, 4, "HoldOnUnknown", writes=True)


def test_a_lowered_maximum_wins_at_once_without_metrics():
    got = one(
        snapshot(pool(6, pods(6, GONE), spec=spec(scaling=Scaling(max_replicas=2)))), settled(6)
    )
    check(got, 2, "TooManyReplicas", writes=True)


def test_before_any_data_and_without_declared_traffic_the_count_is_adopted():
    got = one(snapshot(pool(2, pods(2, GONE))))
    check(got, 2, "HoldOnUnknown", writes=False)


# --- removal ----------------------------------------------------------------------------------

IDLE = sample(0.1, 5)  # three of them: used 300, N 15: growth 128; 428 / 850 -> 1


def test_a_proven_removal_takes_one_pod():
    got = one(snapshot(pool(3, pods(3, IDLE))), settled(3))
    check(got, 2, "ScaleDownLimit", writes=True)


@pytest.mark.parametrize(
    ("why", "changes", "memory"),
    [
        ("there are 100 s of samples without a gap", {}, {"complete_since": T - 100}),
        (
            "there are 0 s of samples without a gap",
            {},
            {"complete_since": None, "unknown_since": T - 5},
        ),
        ("rollout", {"target": target(3, progressing=True)}, {}),
        ("no new sample", {}, {"stamps": {f"uid-p{i}": T for i in range(3)}, "wanted": 1}),
    ],
)
def test_a_removal_without_proof_is_refused(why, changes, memory):
    got = one(snapshot(pool(3, pods(3, IDLE), **changes)), settled(3, **memory))
    check(got, 3, "RemovalNotProven", writes=False)
    assert why in got.message


def test_a_large_request_must_still_fit_one_engine():
    # each request holds 300 blocks; p99 = 300 * 3.33 = 998; on one replica 600 are held
    members = (pod("p0", sample(0.3, 1)), pod("p1", sample(0.3, 1)))
    calm = spec(percentile=50, scaling=TEN)  # no growth: 600 / 850 -> 1
    got = one(snapshot(pool(2, members, spec=calm)), settled(2))
    check(got, 2, "RemovalNotProven", writes=False)
    assert "p99" in got.message


def test_prefix_hits_of_the_leaving_pod_count_as_misses():
    # hits 80 %: 300 used there stand for 1,200 more elsewhere
    shared = sample(0.3, 15, hits=800.0, queries=1000.0)
    members = (pod("p0", shared), pod("p1", shared))
    calm = spec(percentile=50, scaling=TEN)
    got = one(snapshot(pool(2, members, spec=calm)), settled(2))
    check(got, 2, "RemovalNotProven", writes=False)
    plain = (pod("p0", sample(0.3, 15)), pod("p1", sample(0.3, 15)))
    check(one(snapshot(pool(2, plain, spec=calm)), settled(2)), 1, "AsNeeded", writes=True)


def test_prefix_misses_count_in_the_bounds_of_what_is_left():
    # hits 50 %: 300 used there stand for 300 more; 900 / 850 -> 2; a p99 request of 34 would fit
    shared = sample(0.3, 30, hits=500.0, queries=1000.0)
    calm = spec(percentile=50, scaling=TEN)
    got = one(snapshot(pool(2, pods(2, shared), spec=calm)), settled(2))
    check(got, 2, "RemovalNotProven", writes=False)
    assert "prefix hits" in got.message


def test_a_need_within_the_window_delays_the_removal():
    memory = {"recommendations": (Recommendation(T - 200, 3),)}
    got = one(snapshot(pool(3, pods(3, IDLE))), settled(3, **memory))
    check(got, 3, "ScaleDownStabilized", writes=False)


def test_a_fast_policy_takes_as_many_as_are_proven():
    # used 1,200, N 60: growth 255; 1,455 / 850 -> 2; with one unmeasured pod as full 2,455 -> 3
    fast = ScalingRules((ScalingPolicy(PolicyType.PERCENT, 100, 15),), 0)
    quick = spec(scaling=Scaling(max_replicas=10, scale_down=fast))
    members = pods(6, sample(0.2, 10))
    check(one(snapshot(pool(6, members, spec=quick)), settled(6)), 2, "AsNeeded", writes=True)
    unseen = (*members[:5], pod("p5", GONE))
    got = one(snapshot(pool(6, unseen, spec=quick)), settled(6))
    check(got, 3, "ScaleDownLimit", writes=True)


def test_the_pace_is_one_pod_in_five_minutes():
    memory = {"scalings": (ScalingEvent(T - 200, 4, 3),)}
    got = one(snapshot(pool(3, pods(3, IDLE))), settled(3, **memory))
    check(got, 3, "ScaleDownLimit", writes=False)


# --- pods that are not what they seem ---------------------------------------------------------


def test_starting_pods_are_awaited_not_doubled():
    members = (pod("p0", sample(0.9, 45)), pod("p1", ready=False), pod("p2", ready=False))
    # used 900, N 45: growth 221; 1,121 / 850 -> 2
    got = one(snapshot(pool(3, members)), settled(3))
    assert got.counts.starting == 2
    check(
        got, 3, "ScaleDownStabilized" if got.counts.wanted > 2 else "RemovalNotProven", writes=False
    )


def test_a_crash_loop_is_neither_supply_nor_demand():
    broken = pod("p1", ready=False, waiting_reason="CrashLoopBackOff", restarts=7)
    # used 900, N 45: growth 221; 1,121 / 850 -> 2: not a third for the broken one
    got = one(snapshot(pool(2, (pod("p0", sample(0.9, 45)), broken))), settled(2))
    assert (got.counts.ready, got.counts.starting) == (1, 0)
    check(got, 2, "AsNeeded", writes=False)


def test_an_engine_that_runs_and_emits_nothing_is_replaced():
    stuck = sample(0.4, 20, generated=500.0, prompted=9.0)
    memory = {"progress": {"uid-p0/0": EngineProgress(500.0, 0.0, 9.0, T - 60)}}
    members = (pod("p0", stuck), pod("p1", sample(0.4, 20, generated=10.0)))
    # 1,009 / 850 -> 2, and one for the stuck one
    got = one(snapshot(pool(2, members)), settled(2, **memory))
    check(got, 3, "AsNeeded", writes=True)
    assert got.counts.ready == 1


def test_engines_that_all_fall_silent_are_a_fault_of_something_else():
    stuck = sample(0.4, 20, generated=500.0, prompted=9.0)
    memory = {
        "progress": {f"uid-p{i}/0": EngineProgress(500.0, 0.0, 9.0, T - 60) for i in range(2)}
    }
    got = one(snapshot(pool(2, pods(2, stuck))), settled(2, **memory))
    check(got, 2, "HoldOnUnknown", writes=False)
    assert condition(got, "MetricsAvailable").reason == "EnginesSilent"


def test_load_on_a_draining_node_stays_but_its_supply_does_not():
    members = (pod("p0", IDLE), pod("p1", IDLE, draining=True))
    got = one(snapshot(pool(2, members)), settled(2))
    # used 200 counts; only p0 is supply, and which of the two a removal would take is not ours
    assert got.demand.used_blocks == 200
    assert got.counts.ready == 1


def test_nobody_healthy_left_refuses_a_removal():
    members = (pod("p0", IDLE, draining=True), pod("p1", IDLE, draining=True))
    got = one(snapshot(pool(2, members)), settled(2))
    check(got, 2, "RemovalNotProven", writes=False)


# --- one writer -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject", "InferencePool"])
def test_another_scaler_of_the_target_stalls_the_pool(kind):
    members = pods(1, sample(1.0, 50, 50))
    got = one(snapshot(pool(1, members, other_scalers=(OtherScaler(kind, "theirs"),))), settled(1))
    check(got, 1, "ConflictingAutoscaler", writes=False)
    assert condition(got, "Stalled").status is Status.TRUE
    assert condition(got, "Ready").status is Status.FALSE
    assert f"{kind}/theirs" in condition(got, "Stalled").message


def test_with_external_actuation_an_hpa_is_expected():
    external = spec(scaling=Scaling(actuation=Actuation.EXTERNAL, max_replicas=10))
    hpa = OtherScaler("HorizontalPodAutoscaler", "theirs")
    got = one(
        snapshot(pool(1, pods(1, sample(1.0, 50, 50)), spec=external, other_scalers=(hpa,))),
        settled(1),
    )
    check(got, 3, "AsNeeded", writes=False)
    assert condition(got, "Stalled").status is Status.FALSE


def test_with_external_actuation_another_pool_is_in_the_way_all_the_same():
    external = spec(scaling=Scaling(actuation=Actuation.EXTERNAL, max_replicas=10))
    other = OtherScaler("InferencePool", "theirs")
    got = one(snapshot(pool(1, pods(1), spec=external, other_scalers=(other,))), settled(1))
    check(got, 1, "ConflictingAutoscaler", writes=False)


def test_in_recommend_an_hpa_is_what_runs():
    advice = spec(mode=Mode.RECOMMEND, scaling=TEN)
    hpa = OtherScaler("HorizontalPodAutoscaler", "theirs")
    got = one(
        snapshot(pool(1, pods(1, sample(1.0, 50, 50)), spec=advice, other_scalers=(hpa,))),
        settled(1),
    )
    check(got, 3, "AsNeeded", writes=False)


def test_one_edit_by_a_person_is_adopted():
    edited = target(4, replicas_manager="kubectl", resource_version="101")
    got = one(snapshot(pool(4, pods(4, sample(0.7, 35)), target=edited)), settled(2))
    assert condition(got, "Stalled").status is Status.FALSE


def test_a_manager_that_changes_our_value_twice_stalls_the_pool():
    world = World(settled(2))
    pressed = sample(0.9, 45)
    for at, (count, version) in enumerate(((2, "100"), (2, "102"), (2, "104"))):
        # Each time kvscale writes 3, somebody puts 2 back before the next look.
        members = tuple(
            replace(p, metrics=replace(p.metrics, at=T + 60 * at, stamp=T + 60 * at))
            for p in pods(count, pressed)
        )
        seen = target(count, replicas_manager="argocd-controller", resource_version=version)
        got = world.tick(snapshot(pool(count, members, target=seen), at=T + 60 * at))
    check(got, 2, "ConflictingWriter", writes=False)
    assert "argocd-controller" in got.message


def test_a_cache_that_has_not_seen_our_write_is_no_conflict():
    memory = {"last_written": 3, "last_written_at": T - 1, "write_base_version": "100"}
    got = one(snapshot(pool(2, pods(2, sample(0.9, 45)))), settled(3, **memory))
    check(got, 2, "WritePending", writes=False)
    assert condition(got, "Stalled").status is Status.FALSE


# --- placement --------------------------------------------------------------------------------

PRESSED = sample(1.0, 50, 200)  # used 1,000 + 4,000, N 250: growth 521; 5,521 / 850 -> 7


def test_beyond_what_is_placeable_two_are_written():
    busy = node(gpus=2, used=1)
    got = one(snapshot(pool(1, pods(1, PRESSED)), nodes=(busy,)), settled(1))
    assert (got.counts.wanted, got.counts.placeable) == (7, 2)
    check(got, 4, "NotPlaceable", writes=True)


def test_nodes_that_may_not_be_read_do_not_limit():
    got = one(snapshot(pool(1, pods(1, PRESSED)), nodes=NO_NODES), settled(1))
    assert got.counts.placeable is None
    check(got, 5, "ScaleUpLimit", writes=True)  # four pods in 15 s


def test_a_quota_limits_like_a_node():
    quota = Quota("default", "gpus", {f"requests.{GPU}": 3}, {f"requests.{GPU}": 1})
    got = one(
        snapshot(pool(1, pods(1, PRESSED)), nodes=(node(gpus=8, used=1),), quotas=(quota,)),
        settled(1),
    )
    assert got.counts.placeable == 3
    check(got, 5, "ScaleUpLimit", writes=True)
    later = one(
        snapshot(
            pool(5, (*pods(1, PRESSED), *(pod(f"w{i}", ready=False, node="") for i in range(2)))),
            nodes=(node(gpus=8, used=1),),
            quotas=(replace(quota, used={f"requests.{GPU}": 3}),),
        ),
        settled(5),
    )
    assert "ResourceQuota/gpus" in later.message


def test_a_stock_out_takes_back_what_no_node_came_for():
    lost = [pod(f"w{i}", ready=False, node="", unschedulable_at=T - 900) for i in range(2)]
    members = (pod("p0", PRESSED), *lost)
    full = node(gpus=1, used=1)
    got = one(snapshot(pool(3, members), nodes=(full,)), settled(3))
    check(got, 1, "StockOut", writes=True)


def test_a_pod_that_waits_for_a_node_is_given_its_time():
    waiting = pod("w0", ready=False, node="", unschedulable_at=T - 600)
    got = one(
        snapshot(pool(2, (pod("p0", sample(0.9, 45)), waiting)), nodes=(node(gpus=1, used=1),)),
        settled(2),
    )
    assert got.counts.desired == 2


def test_devices_bound_whole_replicas():
    limited = spec(scaling=Scaling(max_replicas=10, max_devices=7))
    got = one(snapshot(pool(1, pods(1, PRESSED), spec=limited, devices_per_pod=2)), settled(1))
    check(got, 3, "TooManyReplicas", writes=True)


def test_two_pools_share_what_is_free_evenly():
    other = PoolKey("default", "zebra")
    first = pool(1, pods(1, PRESSED))
    second = replace(first, key=other, uid="uid-z")
    seen = snapshot(first, second, nodes=(node(gpus=6, used=2),))
    decisions, _ = decide(seen, settled(1), T)
    assert [d.counts.placeable for d in decisions] == [3, 3]


# --- what a person says -----------------------------------------------------------------------


def test_a_target_at_zero_stays_at_zero():
    got = one(snapshot(pool(0, ())), settled(0))
    check(got, 0, "ScaledToZero", writes=False)
    assert condition(got, "Ready").status is not None


def test_a_hold_keeps_the_count_until_it_expires():
    pressed = pods(1, sample(1.0, 50, 50))
    held = one(snapshot(pool(1, pressed, hold_until=T + 60)), settled(1))
    check(held, 1, "OnHold", writes=False)
    after = one(snapshot(pool(1, pressed, hold_until=T - 1)), settled(1))
    check(after, 3, "AsNeeded", writes=True)


def test_a_freeze_stops_one_direction_alone():
    pressed = pool(1, pods(1, sample(1.0, 50, 50)), freeze=Freeze.SCALE_UP)
    check(one(snapshot(pressed), settled(1)), 1, "Frozen", writes=False)
    idle = pool(3, pods(3, IDLE), freeze=Freeze.SCALE_UP)
    check(one(snapshot(idle), settled(3)), 2, "ScaleDownLimit", writes=True)
    frozen = pool(3, pods(3, IDLE), freeze=Freeze.SCALE_DOWN)
    check(one(snapshot(frozen), settled(3)), 3, "Frozen", writes=False)


def test_a_paused_pool_is_not_touched():
    paused = spec(mode=Mode.PAUSED, scaling=TEN)
    got = one(snapshot(pool(1, pods(1, sample(1.0, 50, 50)), spec=paused)), settled(1))
    check(got, 1, "Paused", writes=False)


def test_the_operators_own_mode_takes_writing_away():
    seen = snapshot(pool(1, pods(1, sample(1.0, 50, 50))), operator_mode=Mode.RECOMMEND)
    check(one(seen, settled(1)), 3, "AsNeeded", writes=False)


def test_policies_pace_the_way_up():
    slow = ScalingRules((ScalingPolicy(PolicyType.PODS, 1, 60),), 0)
    paced = spec(scaling=Scaling(max_replicas=10, scale_up=slow))
    got = one(snapshot(pool(1, pods(1, PRESSED), spec=paced)), settled(1))
    check(got, 2, "ScaleUpLimit", writes=True)
    never = spec(
        scaling=Scaling(
            max_replicas=10, scale_up=replace(slow, select_policy=PolicySelect.DISABLED)
        )
    )
    check(
        one(snapshot(pool(1, pods(1, PRESSED), spec=never)), settled(1)),
        1,
        "ScaleUpLimit",
        writes=False,
    )


def test_an_invalid_spec_decides_nothing():
    bad = pool(2, pods(2), spec=Unknown("InvalidSpec", "spec.scaling.maxReplicas: 0 is too small"))
    got = one(snapshot(bad))
    assert (got.counts, got.write, got.reason) == (None, None, "InvalidSpec")
    assert "maxReplicas" in condition(got, "Ready").message


def test_a_missing_target_decides_nothing():
    lost = pool(2, (), target=Unknown("TargetNotFound", "Deployment/llama does not exist"))
    got = one(snapshot(lost))
    assert (got.counts, got.reason) == (None, "TargetNotFound")
    assert condition(got, "TargetResolved").status is Status.FALSE


def test_one_broken_pool_does_not_stop_the_others():
    bad = replace(pool(2, pods(2)), key=PoolKey("a", "bad"), spec=Unknown("InvalidSpec", "x"))
    decisions, _ = decide(snapshot(bad, pool(1, pods(1, sample(1.0, 50, 50)))), settled(1), T)
    assert [d.write for d in decisions] == [None, 3]


def test_a_tick_without_a_sample_adds_nothing_to_the_memory():
    seen = pool(2, pods(2, sample(0.4, 20)))
    _, first = decide(snapshot(seen), settled(2), T)
    _, again = decide(snapshot(seen, at=T + 5), first, T + 5)
    before, after = first.pools[KEY], again.pools[KEY]
    assert len(before.recommendations) == len(before.load) == 1
    assert (after.recommendations, after.load) == (before.recommendations, before.load)


def test_one_sample_supports_one_decision():
    world = World(settled(2))
    members = pods(2, sample(0.9, 45))
    first = world.tick(snapshot(pool(2, members)))
    seen = snapshot(
        pool(
            3,
            (*members, pod("p2", ready=False)),
            target=target(3, resource_version="101", replicas_manager="kvscale"),
        ),
        at=T + 5,
    )
    again = world.tick(seen)
    assert (first.write, again.write) == (3, None)
    assert again.counts.wanted == 3


def test_arrivals_that_fall_together_freeze_removals():
    """Two pools lose all traffic in the same minute: a gateway died."""
    other = PoolKey("default", "other")
    state = State(pools={KEY: settled(3).pools[KEY], other: settled(3, uid="uid-o").pools[KEY]})
    got = ()
    for second in range(0, 400, 5):
        arrived = 1000.0 * min(second, 300)
        running = 5 if second < 300 else 0
        load = sample(0.02 * running, running, prompted=arrived, generated=arrived)
        members = pods(3, load, at=T + second)
        first = pool(3, members)
        seen = snapshot(first, replace(first, key=other, uid="uid-o"), at=T + second)
        got, state = decide(seen, state, T + second)
    assert state.arrivals_frozen_until > T + 390
    assert {d.reason for d in got} == {"RemovalNotProven"}
    assert "gateway" in got[0].message
