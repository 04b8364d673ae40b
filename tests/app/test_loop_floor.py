"""Declared traffic over time: the first size, what stands in for lost data, and the way back."""

from itertools import pairwise

import pytest

from support.fakes import LLAMA, Rig

pytestmark = pytest.mark.looptime

LLAMA_8B = {
    "model": {"preset": "meta-llama/Llama-3.1-8B-Instruct"},
    "targets": [
        {
            "ref": {"name": "llama"},
            "engine": {"kind": "vLLM", "version": "0.32", "maxModelLen": 16384},
            "devices": {"product": "NVIDIA-L4", "count": 1},
        }
    ],
}
TRAFFIC = {
    "requestsPerMinute": {"mean": 40, "peak": 100},
    "promptTokens": {"mean": 900, "p95": 3300},
    "outputTokens": {"mean": 220, "p95": 640},
}


@pytest.fixture
def rig():
    return Rig()


def pool(rig, replicas=1, *, traffic=None, **changes):
    declared = {**TRAFFIC, **(traffic or {})}
    rig.cluster.add_pool(replicas=replicas, **{**LLAMA_8B, "traffic": declared, **changes})


def floor(rig):
    return rig.cluster.status()["floor"]["meanReplicas"]


def steps(rig):
    return [(before, after) for _, _, before, after in rig.cluster.scales]


def down_from(count, to=1):
    return list(pairwise(range(count, to - 1, -1)))


def pace_of_removals(rig):
    times = [at for at, _, before, after in rig.cluster.scales if after < before]
    return min((later - sooner for sooner, later in pairwise(times)), default=300.0)


async def test_the_first_size_is_the_floor_and_then_the_data_decides(rig):
    rig.cluster.startup = 90
    pool(rig)
    await rig.run(60)
    first = floor(rig)
    assert first > 2
    assert steps(rig) == [(1, first)]
    assert rig.cluster.status()["decision"]["reason"] == "FirstSize"
    await rig.run(3600)
    assert steps(rig)[1:] == down_from(first)
    assert pace_of_removals(rig) >= 300


async def test_the_first_size_comes_at_the_pace_of_behavior(rig):
    rig.cluster.startup = 1000
    one_a_minute = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    pool(rig, scaling={"behavior": {"scaleUp": one_a_minute}})
    await rig.run(400)
    assert steps(rig) == list(pairwise(range(1, floor(rig) + 1)))
    times = [at for at, *_ in rig.cluster.scales]
    assert all(later - sooner >= 60 for sooner, later in pairwise(times))


async def test_lost_data_brings_the_floor_and_found_data_takes_it_back_by_proof(rig):
    pool(rig)
    rig.demand(100)
    await rig.run(120)
    rig.cluster.scales.clear()
    before = rig.cluster.replicas[LLAMA]
    rig.metrics.down = True
    await rig.run(280)
    assert rig.cluster.scales == []
    await rig.run(40)
    raised = max(before, floor(rig))
    assert rig.cluster.replicas[LLAMA] == raised
    await rig.run(600)
    assert rig.cluster.status()["decision"]["reason"] == "FloorOnUnknown"
    rig.metrics.down = False
    back = rig.clock.now() - 1_000_000.0
    await rig.run(3600)
    downs = [(b, a) for _, _, b, a in rig.cluster.scales if a < b]
    assert downs == down_from(raised)
    first = next(at for at, _, b, a in rig.cluster.scales if a < b)
    assert first >= back + 300
    assert pace_of_removals(rig) >= 300


async def test_hold_keeps_what_is_there_however_long(rig):
    pool(rig, replicas=2, scaling={"onUnknown": "Hold"})
    await rig.run(120)
    kept = rig.cluster.replicas[LLAMA]
    rig.cluster.scales.clear()
    rig.metrics.down = True
    await rig.run(3600)
    assert (rig.cluster.replicas[LLAMA], rig.cluster.scales) == (kept, [])


async def test_a_restart_while_nothing_is_known_takes_nothing_away_and_waits_anew(rig):
    pool(rig)
    rig.demand(100)
    await rig.run(1800)
    assert rig.cluster.replicas[LLAMA] == 1
    rig.cluster.scales.clear()
    rig.metrics.down = True
    await rig.run(200)
    rig.restart()
    await rig.run(290)
    assert rig.cluster.scales == []
    await rig.run(30)
    raised = floor(rig)
    assert rig.cluster.replicas[LLAMA] == raised
    rig.restart()
    await rig.run(1200)
    assert rig.cluster.replicas[LLAMA] == raised


async def test_declared_is_a_bound_always_and_a_restart_does_not_forget_it(rig):
    pool(rig, traffic={"source": "Declared"})
    await rig.run(60)
    peak = rig.cluster.status()["floor"]["peakReplicas"]
    assert rig.cluster.replicas[LLAMA] == peak
    rig.restart()
    await rig.run(1200)
    assert rig.cluster.replicas[LLAMA] == peak
    assert rig.cluster.status()["decision"]["bindingBound"] == "Floor"


async def test_a_declared_floor_is_met_to_the_replica(rig):
    """The tolerance is for what is measured; here that is close to what is there."""
    pool(rig, traffic={"source": "Declared"})
    await rig.run(60)
    peak = rig.cluster.status()["floor"]["peakReplicas"]
    rig.demand((peak - 1) * 740)
    rig.cluster.person_scales(peak - 1)
    rig.cluster.scales.clear()
    await rig.run(60)
    bounds = {b["name"]: b["exactMilli"] for b in rig.cluster.status()["decision"]["bounds"]}
    assert abs(bounds["KV"] - (peak - 1) * 1000) <= (peak - 1) * 100
    assert steps(rig) == [(peak - 1, peak)]


async def test_a_target_that_slept_for_hours_wakes_as_large_as_it_was_set(rig):
    pool(rig)
    rig.demand(100)
    await rig.run(900)
    rig.cluster.person_scales(0)
    await rig.run(7200)
    assert rig.cluster.condition("Ready")["status"] == "True"
    rig.cluster.scales.clear()
    rig.cluster.person_scales(1)
    await rig.run(120)
    assert (rig.cluster.replicas[LLAMA], rig.cluster.scales) == (1, [])
    assert rig.cluster.condition("Stalled")["status"] == "False"


async def test_a_count_at_zero_never_got_a_first_size(rig):
    pool(rig, replicas=0)
    await rig.run(600)
    assert rig.cluster.scales == []
    rig.cluster.person_scales(1)
    await rig.run(20)
    assert rig.cluster.replicas[LLAMA] == floor(rig)
