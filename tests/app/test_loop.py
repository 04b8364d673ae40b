"""The loop against fakes, in virtual time: what an operator does over minutes."""

from itertools import pairwise

import pytest

from kvscale.core.spec import PoolKey
from kvscale.ports import WriteOutcome, WriteResult
from kvscale.records import WorkloadRef
from support.fakes import KEY, LLAMA, Rig

pytestmark = pytest.mark.looptime


@pytest.fixture
def rig():
    return Rig()


async def test_pressure_scales_out_and_idleness_back_in_one_by_one(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4  # 2,500 + growth 368 -> 3.4
    rig.demand(100)
    await rig.run(3600)
    assert rig.cluster.replicas[LLAMA] == 1
    downs = [(at, before, after) for at, _, before, after in rig.cluster.scales if after < before]
    assert [(before, after) for _, before, after in downs] == [(4, 3), (3, 2), (2, 1)]
    assert all(later[0] - sooner[0] >= 300 for sooner, later in pairwise(downs))


async def test_starting_pods_are_not_asked_for_twice(rig):
    rig.cluster.startup = 120
    rig.cluster.add_pool(replicas=1)
    await rig.run(130)
    rig.demand(2500)
    await rig.run(100)
    assert len(rig.cluster.scales) == 1


async def test_lost_metrics_hold_the_count_for_ever_without_a_floor(rig):
    rig.cluster.add_pool(replicas=3)
    rig.demand(2000)
    await rig.run(120)
    before = rig.cluster.replicas[LLAMA]
    rig.metrics.down = True
    await rig.run(3600)
    assert rig.cluster.replicas[LLAMA] == before
    assert rig.cluster.condition("MetricsAvailable")["reason"] == "ScrapeFailed"
    assert rig.cluster.condition("Ready")["status"] == "True"


async def test_after_a_gap_a_removal_waits_for_a_whole_window(rig):
    rig.cluster.add_pool(replicas=3)
    rig.demand(100)
    await rig.run(290)
    rig.metrics.down = True
    await rig.run(30)
    rig.metrics.down = False
    gap_ended = rig.clock.now()
    await rig.run(900)
    first = next(at for at, _, before, after in rig.cluster.scales if after < before)
    assert first + 1_000_000.0 >= gap_ended + 300


async def test_one_answer_that_is_missing_does_not_stop_an_addition(rig):
    rig.cluster.add_pool(replicas=2)
    await rig.run(60)
    rig.demand(2000)
    healthy = rig.metrics.load
    lost = rig.cluster.pods[LLAMA][0].uid
    rig.metrics.load = lambda target: None if target.uid == lost else healthy(target)
    await rig.run(30)
    assert rig.cluster.replicas[LLAMA] >= 2


async def test_a_restart_keeps_the_pace(rig):
    """The operator killed right after a removal does not take a second pod at once."""
    rig.cluster.add_pool(replicas=4)
    rig.demand(100)
    while not rig.cluster.scales:
        await rig.run(5)
    at = rig.clock.now()
    rig.restart()
    await rig.run(900)
    seconds = [t + 1_000_000.0 for t, *_ in rig.cluster.scales[1:]]
    assert seconds[0] >= at + 295


async def test_a_crash_between_scale_and_status_is_no_foreign_write(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    kept = rig.cluster.apply_status

    async def dies(key, status):
        return WriteResult(WriteOutcome.FAILED, "connection reset")

    rig.cluster.apply_status = dies
    await rig.run(60)
    rig.restart()
    rig.cluster.apply_status = kept
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.condition("Stalled")["status"] == "False"


async def test_a_person_who_lowers_the_count_is_followed_then_the_data_decides(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(60)
    rig.cluster.person_scales(1)
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.condition("Stalled")["status"] == "False"


async def test_a_manager_that_keeps_changing_the_count_stalls_the_pool(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    for _ in range(3):
        await rig.run(20)
        rig.cluster.person_scales(1, manager="argocd-controller")
    written = len(rig.cluster.scales)
    await rig.run(120)
    assert len(rig.cluster.scales) == written
    assert "argocd-controller" in rig.cluster.condition("Stalled")["message"]
    assert rig.cluster.condition("Ready")["status"] == "False"
    await rig.run(900)
    assert rig.cluster.replicas[LLAMA] == 4, "left alone for ten minutes, it goes on"


async def test_the_api_server_goes_away_and_returns(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(500)
    await rig.run(60)
    rig.cluster.down = True
    await rig.run(590)
    assert "not synced" in rig.loop.last_problem
    assert rig.clock.now() - rig.loop.last_finished < 60, "an outage of the server is not ours"
    await rig.run(120)
    assert rig.clock.now() - rig.loop.last_finished > 60, "in the end a restart is worth a try"
    rig.cluster.down = False
    rig.demand(2500)
    await rig.run(30)
    assert rig.cluster.replicas[LLAMA] == 4


async def test_a_write_that_is_refused_is_told_and_tried_anew(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    rig.cluster.refuse = WriteResult(WriteOutcome.FORBIDDEN, "deployments/scale: no update")
    await rig.run(60)
    assert rig.cluster.condition("Ready")["reason"] == "WriteFailed"
    assert "no update" in rig.cluster.condition("Ready")["message"]
    rig.cluster.refuse = None
    await rig.run(30)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.condition("Ready")["status"] == "True"


async def test_a_lowered_maximum_acts_at_once_without_metrics(rig):
    rig.cluster.add_pool(replicas=6)
    await rig.run(60)
    rig.metrics.down = True
    rig.cluster.edit(scaling={"maxReplicas": 2})
    rig.loop.wake()
    await rig.run(6)
    assert rig.cluster.replicas[LLAMA] == 2


async def test_a_bad_pool_is_told_and_the_others_go_on(rig):
    bad = PoolKey("default", "a-bad-one")
    rig.cluster.add_pool(
        bad,
        WorkloadRef("Deployment", "default", "other"),
        scaling={"minReplicas": 5, "maxReplicas": 2},
    )
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.condition("Ready", bad)["reason"] == "InvalidSpec"
    assert "maxReplicas" in rig.cluster.condition("Ready", bad)["message"]


async def test_a_missing_target_is_told(rig):
    rig.cluster.add_pool()
    del rig.cluster.replicas[LLAMA]
    await rig.run(12)
    assert rig.cluster.condition("TargetResolved")["reason"] == "TargetNotFound"
    assert "Deployment/llama" in rig.cluster.condition("Ready")["message"]


async def test_two_pools_on_one_target_both_stall(rig):
    rig.cluster.add_pool()
    second = PoolKey("default", "second")
    rig.cluster.add_pool(second)
    rig.demand(2500)
    await rig.run(60)
    assert rig.cluster.scales == []
    for key in (KEY, second):
        assert rig.cluster.condition("Stalled", key)["reason"] == "ConflictingAutoscaler"


@pytest.mark.parametrize(
    "beside", [{"mode": "Recommend"}, {"mode": "Paused"}, {"scaling": {"actuation": "External"}}]
)
async def test_a_pool_that_does_not_write_stands_in_nobodys_way(rig, beside):
    rig.cluster.add_pool()
    second = PoolKey("default", "second")
    rig.cluster.add_pool(second, **beside)
    rig.demand(2500)
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4
    assert rig.cluster.condition("Stalled")["status"] == "False"


async def test_without_the_lease_nothing_is_looked_at_or_written(rig):
    rig.cluster.add_pool()
    rig.demand(2500)
    rig.lease.held = False
    await rig.run(60)
    assert (rig.cluster.scales, rig.cluster.statuses, rig.metrics.queries) == ([], [], 0)
    rig.lease.held = True
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4


async def test_a_quiet_pool_writes_no_status(rig):
    rig.cluster.add_pool()
    rig.demand(500)
    await rig.run(120)
    settled = len(rig.cluster.statuses)
    await rig.run(500)
    assert len(rig.cluster.statuses) - settled <= 1


async def test_queries_do_not_grow_with_the_pools(rig):
    for index in range(50):
        rig.cluster.add_pool(
            PoolKey("default", f"p{index}"), WorkloadRef("Deployment", "default", f"d{index}")
        )
    await rig.loop.tick()
    assert rig.metrics.queries == 1


async def test_an_exception_in_a_round_does_not_end_the_loop(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    healthy = rig.metrics.collect

    async def explodes(targets):
        raise RuntimeError("a bug")

    rig.metrics.collect = explodes
    await rig.run(30)
    rig.metrics.collect = healthy
    await rig.run(30)
    assert rig.cluster.replicas[LLAMA] == 4


async def test_events_tell_changes_and_nothing_else(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(120)
    ups = [note for note in rig.cluster.events if note.reason == "ScaledUp"]
    assert len(ups) == 1
    settled = len(rig.cluster.events)
    await rig.run(240)
    assert len(rig.cluster.events) == settled


async def test_a_hold_by_annotation_stops_writes_until_it_expires(rig):
    rig.cluster.add_pool(replicas=1)
    rig.cluster.edit(annotations={"kvscale.io/hold-until": "1970-01-12T13:48:40Z"})  # T + 120
    rig.demand(2500)
    await rig.run(100)
    assert rig.cluster.scales == []
    await rig.run(60)
    assert rig.cluster.replicas[LLAMA] == 4


async def test_a_deleted_pool_leaves_its_target_as_it_is(rig):
    rig.cluster.add_pool(replicas=1)
    rig.demand(2500)
    await rig.run(60)
    del rig.cluster.pools[KEY]
    rig.demand(0)
    await rig.run(900)
    assert rig.cluster.replicas[LLAMA] == 4
