"""What people and other controllers change while the loop runs."""

from dataclasses import replace

import pytest

from kvscale.core.spec import PoolKey
from kvscale.records import WorkloadRef
from support.fakes import KEY, LLAMA, Rig

pytestmark = pytest.mark.looptime

T = 1_000_000.0
OTHER = WorkloadRef("Deployment", "default", "other")


@pytest.fixture
def rig():
    return Rig()


async def test_only_auto_writes_and_every_way_back_to_it_goes_on_from_what_is_there(rig):
    rig.cluster.add_pool(replicas=1, mode="Recommend")
    rig.demand(2500)
    await rig.run(120)
    assert rig.cluster.scales == []
    assert rig.cluster.status()["decision"]["desired"] == 4
    for change in ({"mode": "Paused"}, {"mode": "Auto", "scaling": {"actuation": "External"}}):
        rig.cluster.edit(**change)
        rig.loop.wake()
        await rig.run(60)
        assert rig.cluster.scales == []
    rig.cluster.person_scales(2, manager="horizontal-pod-autoscaler")
    await rig.run(60)
    rig.cluster.edit(scaling={})
    rig.loop.wake()
    await rig.run(60)
    assert [(before, after) for _, _, before, after in rig.cluster.scales] == [(2, 4)]
    assert rig.cluster.condition("Stalled")["status"] == "False"


@pytest.mark.parametrize("changes", [{"mode": "Recommend"}, {"mode": "Paused"}])
async def test_a_pool_that_does_not_write_leaves_the_count_through_restarts(rig, changes):
    rig.cluster.add_pool(replicas=3, **changes)
    rig.demand(100)
    for _ in range(4):
        await rig.run(400)
        rig.restart()
    assert rig.cluster.scales == []


async def test_in_recommend_an_hpa_is_no_stall(rig):
    rig.cluster.add_pool(replicas=1, mode="Recommend")
    rig.cluster.other_scaler("HorizontalPodAutoscaler")
    rig.demand(2500)
    await rig.run(30)
    assert rig.cluster.condition("Stalled")["status"] == "False"
    assert rig.cluster.condition("Ready")["status"] == "True"
    rig.cluster.edit(mode="Auto")
    rig.loop.wake()
    await rig.run(30)
    assert rig.cluster.condition("Stalled")["status"] == "True"
    assert rig.cluster.scales == []


async def test_a_maximum_lowered_and_raised_again_comes_back_by_the_data(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(60)
    high = rig.cluster.replicas[LLAMA]
    rig.cluster.edit(scaling={"maxReplicas": 2})
    rig.loop.wake()
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 2
    assert rig.cluster.condition("ScalingLimited")["reason"] == "TooManyReplicas"
    rig.cluster.edit(scaling={})
    rig.loop.wake()
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == high


async def test_a_pool_made_anew_under_its_name_is_another_pool(rig):
    rig.cluster.add_pool(replicas=3)
    rig.demand(100)
    while not rig.cluster.scales:
        await rig.run(5)
    old = rig.cluster.pools[KEY]
    rig.cluster.pools[KEY] = replace(old, uid="uid-anew", generation=1, status={})
    started = rig.clock.now()
    await rig.run(20)
    assert rig.cluster.status()["decision"]["desired"] == 2
    assert "scalings" not in rig.cluster.status() or not rig.cluster.status()["scalings"]
    ready = rig.cluster.condition("Ready")["lastTransitionTime"]
    assert ready >= "1970-01-12T13:51", f"{ready} is of the pool before"
    await rig.run(270)
    assert len(rig.cluster.scales) == 1, "its window begins anew"
    await rig.run(60)
    assert rig.cluster.scales[-1][0] >= started - T + 300


async def test_an_invalid_pool_made_anew_is_told_again(rig):
    rig.cluster.add_pool(scaling={"minReplicas": 5, "maxReplicas": 2})
    await rig.run(20)
    rig.cluster.pools[KEY] = replace(rig.cluster.pools[KEY], uid="uid-anew", status={})
    await rig.run(20)
    assert rig.cluster.condition("Ready")["reason"] == "InvalidSpec"


async def test_a_pool_that_points_elsewhere_adopts_what_is_there(rig):
    rig.cluster.add_pool(replicas=4)
    rig.demand(3000)
    await rig.run(400)
    rig.cluster.replicas[OTHER] = 2
    rig.cluster.managers[OTHER] = "kubectl"
    rig.cluster.edit(targets=[{"ref": {"name": "other"}}])
    rig.demand(100)
    rig.loop.wake()
    await rig.run(280)
    assert rig.cluster.replicas[OTHER] == 2
    assert rig.cluster.status()["memory"]["lastWrittenReplicas"] == 2
    assert not rig.cluster.status()["memory"].get("foreignTimes")


async def test_a_pool_that_is_deleted_or_edited_while_it_is_decided_writes_nothing(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(20)
    rig.cluster.scales.clear()
    rig.cluster.person_scales(1)
    collect = rig.metrics.collect

    async def while_it_looks(targets):
        rig.cluster.edit(mode="Paused")
        return await collect(targets)

    rig.metrics.collect = while_it_looks
    await rig.loop.tick()
    assert rig.cluster.scales == []

    async def deleted(targets):
        rig.cluster.pools.clear()
        return await collect(targets)

    rig.cluster.edit(mode="Auto")
    rig.metrics.collect = deleted
    await rig.loop.tick()
    assert rig.cluster.scales == []


async def test_a_lease_that_was_lost_while_looking_writes_nothing(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(40)
    rig.cluster.scales.clear()
    rig.cluster.person_scales(1)
    collect = rig.metrics.collect

    async def slow(targets):
        rig.lease.held = False
        return await collect(targets)

    rig.metrics.collect = slow
    await rig.loop.tick()
    assert rig.cluster.scales == []


async def test_a_lease_that_was_lost_for_an_hour_is_no_window_of_samples(rig):
    rig.cluster.add_pool(replicas=4)
    rig.demand(3000)
    await rig.run(400)
    rig.lease.held = False
    await rig.run(3600)
    rig.demand(100)
    rig.lease.held = True
    rig.cluster.scales.clear()
    await rig.run(290)
    assert rig.cluster.scales == []
    await rig.run(60)
    assert [(before, after) for _, _, before, after in rig.cluster.scales] == [(4, 3)]


async def test_what_another_leader_told_is_not_taken_for_ours(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(500)
    await rig.run(120)
    ours = rig.cluster.status()
    rig.lease.held = False
    await rig.run(30)
    theirs = {**ours, "decision": {**ours["decision"], "desired": 7, "reason": "Theirs"}}
    rig.cluster.pools[KEY] = replace(rig.cluster.pools[KEY], status=theirs)
    rig.lease.held = True
    await rig.run(30)
    assert rig.cluster.status()["decision"]["desired"] == 1


async def test_a_status_that_cannot_be_told_stops_neither_the_others_nor_the_memory(rig):
    bad = PoolKey("default", "a-first")
    rig.cluster.add_pool(bad, OTHER)
    rig.cluster.add_pool(replicas=1)
    kept = rig.cluster.apply_status

    async def breaks(key, status):
        if key == bad:
            raise RuntimeError("a bug")
        return await kept(key, status)

    rig.cluster.apply_status = breaks
    rig.demand(2500)
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.status()["decision"]["desired"] == 4
    assert rig.loop.state.pools[bad].last_written == rig.cluster.replicas[OTHER]
