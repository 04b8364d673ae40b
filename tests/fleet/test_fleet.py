"""Pods as somebody outside reports them, engines behind them."""

import re
from dataclasses import replace

import pytest

from kvscale.fleet.fleet import Fleet, FleetPod

A = FleetPod("serving", "llama-a", "uid-a", "llama", ready=True)
B = FleetPod("serving", "llama-b", "uid-b", "llama", ready=True)
Q = FleetPod("other", "qwen-a", "uid-q", "qwen", ready=True)


def value(page: str, name: str) -> float:
    match = re.search(rf"^vllm:{name}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)
    assert match, name
    return float(match[1])


def running(fleet: Fleet, pod: FleetPod) -> float:
    return value(fleet.metrics(pod), "num_requests_running")


def test_traffic_goes_to_the_ready_pods_of_its_pool(fleet, clock) -> None:
    fleet.set_pods([A, B, Q])
    clock.at += 5.5
    fleet.advance(clock.now())
    assert [running(fleet, pod) for pod in (A, B, Q)] == [3, 3, 0]


def test_a_pod_that_is_not_ready_gets_no_traffic_and_is_starting(fleet, clock) -> None:
    starting = replace(B, ready=False)
    fleet.set_pods([A, starting])
    clock.at += 5.5
    fleet.advance(clock.now())
    assert [running(fleet, pod) for pod in (A, starting)] == [6, 0]
    assert fleet.is_starting(starting)
    fleet.set_pods([A, B])
    clock.at += 2.0
    fleet.advance(clock.now())
    assert running(fleet, B) == 2
    assert not fleet.is_starting(B)


def test_a_pod_that_lost_its_readiness_is_not_starting_again(fleet) -> None:
    fleet.set_pods([A])
    lost = replace(A, ready=False)
    fleet.set_pods([lost])
    assert not fleet.is_starting(lost)


def test_requests_of_a_pod_that_is_gone_go_to_the_others(fleet, clock) -> None:
    fleet.set_pods([A])
    clock.at += 5.5
    fleet.set_pods([B])
    assert fleet.pod("serving", "llama-a") is None
    clock.at += 0.25
    fleet.advance(clock.now())
    assert running(fleet, B) == 6
    clock.at += 500
    fleet.advance(clock.now())
    attempts = [done.attempts for done in fleet.take_finished("llama")]
    assert (attempts.count(2), len(attempts)) == (6, 100)
    assert fleet.take_finished("llama") == []


def test_a_restarted_container_is_an_engine_that_begins_at_zero(fleet, clock) -> None:
    fleet.set_pods([A])
    clock.at += 10
    fleet.advance(clock.now())
    assert value(fleet.metrics(A), "generation_tokens_total") > 0
    again = replace(A, restarts=1, ready=False)
    fleet.set_pods([again])
    page = fleet.metrics(again)
    assert value(page, "generation_tokens_total") == 0
    assert value(page, "prompt_tokens_created") == clock.now()
    assert fleet.is_starting(again)


def test_a_recreated_pod_of_the_same_name_is_another_engine(fleet, clock) -> None:
    fleet.set_pods([A])
    clock.at += 10
    again = replace(A, uid="uid-a2")
    fleet.set_pods([again])
    assert value(fleet.metrics(again), "generation_tokens_total") == 0


def test_the_model_name_is_the_pools(fleet) -> None:
    fleet.set_pods([A, Q])
    assert 'model_name="org/qwen"' in fleet.metrics(Q)
    assert 'model_name="org/llama"' in fleet.metrics(A)


def test_an_unknown_pool_is_refused_and_nothing_has_changed(fleet) -> None:
    fleet.set_pods([A])
    with pytest.raises(
        ValueError, match=r"no pool 'mistral' in the fleet; it has \['llama', 'qwen"
    ):
        fleet.set_pods([replace(B, pool="mistral")])
    assert fleet.pods == (A,)


def test_a_moment_in_the_past_changes_nothing(fleet, clock) -> None:
    fleet.set_pods([A])
    clock.at += 5.5
    fleet.advance(clock.now())
    page = fleet.metrics(A)
    fleet.advance(clock.now() - 3)
    assert fleet.metrics(A) == page
