"""What holds for every decision, whatever the world looks like."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.decide.decide import decide
from kvscale.core.scaling import Scaling
from kvscale.core.spec import Freeze, PoolKey
from kvscale.core.values import Known, Unknown
from support.scenario import KEY, T, node, pod, pool, sample, settled, snapshot, spec, target

MISSING = Unknown("ScrapeFailed", "connection refused")

samples = st.builds(
    sample,
    st.floats(0, 1),
    st.integers(0, 300),
    st.integers(0, 300),
    blocks=st.one_of(st.none(), st.integers(1, 5000)),
    generated=st.one_of(st.none(), st.floats(0, 1e9)),
    hits=st.one_of(st.none(), st.floats(0, 1e6)),
    queries=st.one_of(st.none(), st.floats(0, 1e6)),
)


@st.composite
def members(draw, least=0):
    count = draw(st.integers(least, 6))
    found = []
    for index in range(count):
        ready = draw(st.booleans())
        load = draw(st.one_of(samples, st.just(MISSING)))
        found.append(
            pod(
                f"p{index}",
                load,
                ready=ready,
                node=draw(st.sampled_from(["n0", ""])) if not ready else "n0",
                at=T - draw(st.sampled_from([0, 5, 60, 200])),
                draining=draw(st.booleans()),
                deleting=draw(st.booleans()),
                waiting_reason=draw(st.sampled_from(["", "CrashLoopBackOff"])) if not ready else "",
                unschedulable_at=draw(st.sampled_from([None, T - 60, T - 1000]))
                if not ready
                else None,
            )
        )
    return tuple(found)


@st.composite
def worlds(draw):
    low = draw(st.integers(1, 4))
    scaling = Scaling(
        min_replicas=low,
        max_replicas=low + draw(st.integers(0, 8)),
        max_devices=draw(st.one_of(st.none(), st.integers(1, 12))),
        target_occupancy_percent=draw(st.integers(20, 100)),
    )
    current = draw(st.integers(0, 14))
    return pool(
        current,
        draw(members()),
        spec=spec(scaling=scaling),
        target=target(current, progressing=draw(st.booleans())),
        freeze=draw(st.sampled_from(list(Freeze))),
        devices_per_pod=draw(st.integers(0, 4)),
    )


nodes = st.one_of(
    st.just(Unknown("NoNodeAccess")),
    st.builds(lambda n, u: (node(gpus=n, used=min(n, u)),), st.integers(0, 8), st.integers(0, 8)),
)


def top_of(seen):
    scaling = seen.spec.scaling
    top = scaling.max_replicas
    if scaling.max_devices is not None and seen.devices_per_pod:
        top = min(top, max(1, scaling.max_devices // seen.devices_per_pod))
    return top


@given(worlds(), nodes)
def test_a_write_stays_within_the_users_bounds(seen, there):
    current = seen.target.replicas
    (got,), _ = decide(snapshot(seen, nodes=there), settled(current), T)
    if got.write is None:
        return
    assert current != 0, "a target at zero is left there"
    top = top_of(seen)
    assert got.write <= top
    assert got.write >= min(seen.spec.scaling.min_replicas, top)


@given(worlds(), nodes)
def test_nothing_is_removed_while_demand_is_unknown(seen, there):
    current = seen.target.replicas
    blind = replace(seen, pods=tuple(replace(p, metrics=MISSING) for p in seen.pods))
    (got,), _ = decide(snapshot(blind, nodes=there), settled(current), T)
    if got.write is not None and got.write < current and got.reason != "StockOut":
        assert current > top_of(seen), "only a user's bound may lower it"


@given(worlds(), nodes)
def test_a_removal_is_one_pod_unless_a_bound_or_a_stock_out_asks(seen, there):
    current = seen.target.replicas
    (got,), _ = decide(snapshot(seen, nodes=there), settled(current), T)
    if got.write is not None and got.write < current <= top_of(seen) and got.reason != "StockOut":
        assert got.write == current - 1


@given(worlds(), nodes)
def test_the_same_snapshot_gives_the_same_decision(seen, there):
    world = snapshot(seen, nodes=there)
    state = settled(seen.target.replicas)
    assert decide(world, state, T) == decide(world, state, T)


@given(worlds(), nodes)
def test_the_order_of_pods_does_not_matter(seen, there):
    state = settled(seen.target.replicas)
    turned = replace(seen, pods=tuple(reversed(seen.pods)))
    (one,), _ = decide(snapshot(seen, nodes=there), state, T)
    (other,), _ = decide(snapshot(turned, nodes=there), state, T)
    assert (one.counts, one.write, one.reason) == (other.counts, other.write, other.reason)


@given(worlds(), st.integers(0, 5))
def test_more_load_never_wants_fewer(seen, more):
    def heavier(member):
        if not isinstance(member.metrics, Known):
            return member
        loaded = tuple(replace(s, waiting=s.waiting + more) for s in member.metrics.value)
        return replace(member, metrics=replace(member.metrics, value=loaded))

    state = settled(seen.target.replicas)
    (light,), _ = decide(snapshot(seen), state, T)
    (heavy,), _ = decide(snapshot(replace(seen, pods=tuple(map(heavier, seen.pods)))), state, T)
    assert heavy.counts.wanted >= light.counts.wanted


@given(worlds(), nodes)
def test_no_more_than_the_pending_allowance_is_written_beyond_what_fits(seen, there):
    current = seen.target.replicas
    (got,), _ = decide(snapshot(seen, nodes=there), settled(current), T)
    if got.write is None or got.write <= current or got.counts.placeable is None:
        return
    allowed = max(current, got.counts.placeable + 2, seen.spec.scaling.min_replicas)
    assert got.write <= allowed


@given(st.lists(worlds(), min_size=1, max_size=4), st.integers(0, 8))
def test_pools_together_get_no_more_devices_than_there_are(pools, free):
    named = [replace(p, key=PoolKey("default", f"p{i}"), uid=f"u{i}") for i, p in enumerate(pools)]
    there = (node(gpus=8, used=8 - free),)
    decisions, _ = decide(snapshot(*named, nodes=there), type(settled(1))(), T)
    given_out = 0
    for decision, seen in zip(decisions, sorted(named, key=lambda p: p.key), strict=True):
        placed = sum(bool(p.node) for p in seen.pods if not (p.deleting or p.draining or p.failed))
        given_out += max(0, decision.counts.placeable - placed)
    assert given_out <= free


@given(worlds())
def test_every_decision_says_why(seen):
    (got,), _ = decide(snapshot(seen), settled(seen.target.replicas), T)
    assert got.reason
    assert got.message
    assert {c.type for c in got.conditions} >= {"Ready", "Stalled", "ScalingLimited"}
    assert got.key == KEY
