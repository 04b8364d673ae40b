"""Pods that come and go behind a router."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.roofline import StepTime
from kvscale.sim.arrivals import poisson
from kvscale.sim.pool import Pool, StartUp, Totals
from kvscale.sim.request import Finished, Request
from kvscale.sim.router import Policy, Router
from kvscale.sim.settings import EngineSettings

SECOND = StepTime(
    fixed=1.0, dense=0.0, sparse=(), kv_token=0.0, compute_token=0.0, compute_pair=0.0
)
SETTINGS = EngineSettings(
    kv_blocks=101,
    block_tokens=4,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    max_model_len=100,
    step=SECOND,
)


def pool(**changes: object) -> Pool:
    return Pool(**{"settings": SETTINGS, "router": Router(), **changes})  # type: ignore[arg-type]


def test_requests_wait_at_the_router_until_a_pod_is_ready() -> None:
    simulated = pool(start_up=StartUp(warm=30.0, cold=300.0))
    simulated.add_pod("a")
    simulated.offer([Request(0, 5.0, 4, 2)])
    assert simulated.advance(10.0) == []
    assert (simulated.held, simulated.unanswered) == (1, 1)
    (done,) = simulated.advance(100.0)
    assert (done.first_token_at, done.finished_at) == (31.0, 32.0)
    assert done.time_to_first_token == 26.0
    assert (simulated.held, simulated.unanswered) == (0, 0)


def test_a_pod_on_a_cold_node_starts_later_than_on_a_warm_one() -> None:
    simulated = pool(start_up=StartUp(warm=30.0, cold=300.0))
    simulated.add_pod("cold", cold=True)
    simulated.add_pod("warm")
    simulated.advance(30.0)
    assert simulated.ready_pods == ("warm",)
    simulated.advance(300.0)
    assert simulated.ready_pods == ("cold", "warm")


def test_a_reported_pod_is_ready_when_somebody_says_so() -> None:
    simulated = pool()
    simulated.add_pod("a", reported=True)
    simulated.advance(1000.0)
    assert simulated.ready_pods == ()
    simulated.set_ready("a", ready=True)
    assert simulated.ready_pods == ("a",)


def test_a_pod_that_is_not_ready_any_more_keeps_its_requests_and_gets_no_new_ones() -> None:
    simulated = pool()
    simulated.add_pod("a")
    simulated.add_pod("b")
    simulated.offer([Request(0, 0.0, 4, 20), Request(1, 6.0, 4, 1), Request(2, 7.0, 4, 1)])
    simulated.advance(5.0)
    simulated.set_ready("a", ready=False)
    finished = simulated.advance(7.5)
    assert [simulated.gauges(uid)[0].running for uid in ("a", "b")] == [1, 1]
    finished += simulated.advance(100.0)
    assert {f.request.id: f.attempts for f in finished} == {0: 1, 1: 1, 2: 1}


def test_requests_of_a_removed_pod_are_tried_again_and_start_over() -> None:
    simulated = pool()
    simulated.add_pod("a")
    simulated.offer([Request(0, 0.0, 4, 10), Request(1, 0.0, 4, 10)])
    simulated.advance(5.5)
    simulated.add_pod("b")
    simulated.remove_pod("a")
    finished = simulated.advance(100.0)
    assert [(f.first_token_at, f.finished_at, f.attempts) for f in finished] == [
        (6.5, 15.5, 2),
        (6.5, 15.5, 2),
    ]
    assert simulated.totals.retried == 2
    assert simulated.totals.finished == simulated.totals.submitted == 2
    assert simulated.pods == ("b",)


def test_requests_of_the_only_pod_wait_for_the_next_one() -> None:
    simulated = pool()
    simulated.add_pod("a")
    simulated.offer([Request(0, 0.0, 4, 10)])
    simulated.advance(5.5)
    simulated.remove_pod("a")
    simulated.advance(50.0)
    assert simulated.held == 1
    simulated.add_pod("b")
    (done,) = simulated.advance(100.0)
    assert done.first_token_at == 51.0


def test_preemptions_of_lost_attempts_are_not_lost() -> None:
    tight = replace(SETTINGS, kv_blocks=6, max_model_len=20)
    simulated = pool(settings=tight)
    simulated.add_pod("a")
    simulated.offer([Request(0, 0.0, 8, 9), Request(1, 0.0, 8, 6)])
    simulated.advance(3.0)
    assert simulated.gauges("a")[0].preemptions_total == 1
    for uid in ("b", "c"):
        simulated.add_pod(uid)
    simulated.remove_pod("a")
    # Each has an engine of its own now, so nothing is preempted any more.
    finished = {f.request.id: f for f in simulated.advance(100.0)}
    assert {i: (f.preemptions, f.attempts) for i, f in finished.items()} == {0: (0, 2), 1: (1, 2)}
    assert simulated.totals.preemptions == 1


def test_a_request_beyond_the_models_length_is_rejected_once() -> None:
    simulated = pool()
    simulated.add_pod("a")
    simulated.offer([Request(0, 0.0, 90, 20), Request(1, 0.0, 90, 10)])
    assert [f.request.id for f in simulated.advance(100.0)] == [1]
    assert (simulated.totals.rejected, simulated.unanswered) == (1, 0)


def test_gauges_are_those_of_now_even_when_nothing_has_happened_since() -> None:
    simulated = pool()
    simulated.add_pod("a")
    simulated.offer([Request(0, 0.0, 4, 90)])
    simulated.advance(3.5)
    assert simulated.gauges("a")[0].generation_tokens_total == 3
    simulated.advance(50.5)
    assert simulated.gauges("a")[0].generation_tokens_total == 50


def test_data_parallel_ranks_of_a_pod_are_engines_of_their_own() -> None:
    simulated = pool(engines_per_pod=2)
    simulated.add_pod("a")
    simulated.offer([Request(i, 0.0, 4, 10) for i in range(4)])
    simulated.advance(2.5)
    assert [g.running for g in simulated.gauges("a")] == [2, 2]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(Policy.LEAST_LOADED, [1, 1]), (Policy.ROUND_ROBIN, [2, 0])],
)
def test_the_router_goes_by_load_or_by_turn(policy: Policy, expected: list[int]) -> None:
    simulated = pool(router=Router(policy))
    for uid in ("a", "b"):
        simulated.add_pod(uid)
    # By 2.0 the short request has left b: load sends the next one there, turns send it to a.
    simulated.offer([Request(0, 0.0, 4, 90), Request(1, 0.0, 4, 1), Request(2, 2.0, 4, 90)])
    simulated.advance(2.5)
    gauges = [simulated.gauges(uid)[0] for uid in ("a", "b")]
    assert [g.running + g.waiting for g in gauges] == expected


def test_a_router_without_engines_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="hold the request until one is ready"):
        Router().choose([])


def test_requests_out_of_order_are_refused() -> None:
    simulated = pool()
    with pytest.raises(ValueError, match=r"request 1 at 4\.0 is not in order"):
        simulated.offer([Request(0, 5.0, 1, 1), Request(1, 4.0, 1, 1)])


def test_a_uid_is_used_once() -> None:
    simulated = pool()
    simulated.add_pod("a")
    with pytest.raises(ValueError, match="pod a is there already"):
        simulated.add_pod("a")


FAST = replace(
    SETTINGS,
    kv_blocks=40,
    step=StepTime(
        fixed=0.01, dense=0.0, sparse=(), kv_token=1e-6, compute_token=1e-5, compute_pair=0.0
    ),
)


def played(moments: list[float]) -> tuple[list[Finished], Totals]:
    """A busy pool with a pod more at 2 and a pod less at 6, looked at whenever asked."""
    simulated = pool(settings=FAST, start_up=StartUp(1.0, 50.0))
    simulated.offer(poisson(9.0, 8.0, ((20, 30), (60, 10), (3, 90)), seed=3).requests)
    simulated.add_pod("a")
    finished: list[Finished] = []
    changes = {2.0: lambda: simulated.add_pod("b"), 6.0: lambda: simulated.remove_pod("a")}
    for at in sorted({*moments, *changes, 500.0}):
        finished += simulated.advance(at)
        if at in changes:
            changes[at]()
    return finished, simulated.totals


UNWATCHED = played([])


@given(st.lists(st.floats(0, 20), max_size=40))
def test_the_outcome_does_not_depend_on_how_often_one_looks(moments: list[float]) -> None:
    assert played(moments) == UNWATCHED


def test_every_request_is_answered_or_rejected_across_pod_changes() -> None:
    finished, totals = UNWATCHED
    assert totals.retried > 0
    assert totals.preemptions > 0
    assert totals.submitted == totals.finished + totals.rejected
    assert len({f.request.id for f in finished}) == len(finished) == totals.finished
