"""The engine's rules, one small workload each, with times by hand."""

from dataclasses import replace
from math import inf

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.values import Band
from kvscale.sim.engine import Engine
from kvscale.sim.request import Request
from kvscale.sim.settings import EngineSettings

SECOND = StepTime(
    fixed=1.0, dense=0.0, sparse=(), kv_token=0.0, compute_token=0.0, compute_pair=0.0
)
"""Every step takes a second."""

SETTINGS = EngineSettings(
    kv_blocks=11,
    block_tokens=4,
    max_num_seqs=8,
    max_num_batched_tokens=16,
    max_model_len=40,
    step=SECOND,
)
"""Ten usable blocks of four tokens."""


def served(settings: EngineSettings, *requests: Request) -> dict[int, tuple[float, float, int]]:
    """First token, finish and preemptions by request."""
    engine = Engine(settings)
    for request in requests:
        engine.submit(request, request.arrived_at)
    return {
        f.request.id: (f.first_token_at, f.finished_at, f.preemptions) for f in engine.advance(1e6)
    }


def test_a_request_takes_one_step_of_prefill_and_one_for_each_further_token() -> None:
    assert served(SETTINGS, Request(0, 2.0, 5, 4)) == {0: (3.0, 6.0, 0)}


def test_an_answer_of_one_token_ends_with_its_prefill() -> None:
    assert served(SETTINGS, Request(0, 0.0, 5, 1)) == {0: (1.0, 1.0, 0)}


def test_a_request_that_arrives_during_a_step_joins_the_next_one() -> None:
    assert served(SETTINGS, Request(0, 0.0, 4, 10), Request(1, 3.5, 4, 2)) == {
        0: (1.0, 10.0, 0),
        1: (5.0, 6.0, 0),
    }


def test_a_long_prompt_is_prefilled_in_chunks_of_what_the_decodes_leave() -> None:
    # 16 tokens a step: 4 + 12 of the second prompt, then 15 beside the decode, then 3.
    assert served(SETTINGS, Request(0, 0.0, 4, 3), Request(1, 0.0, 30, 1)) == {
        0: (1.0, 3.0, 0),
        1: (3.0, 3.0, 0),
    }


def test_no_more_than_max_num_seqs_run_and_the_queue_is_first_come_first_served() -> None:
    settings = replace(SETTINGS, max_num_seqs=1)
    long, short = Request(0, 0.0, 4, 5), Request(1, 0.1, 4, 1)
    assert served(settings, long, short, Request(2, 0.2, 4, 1)) == {
        0: (1.0, 5.0, 0),
        1: (6.0, 6.0, 0),
        2: (7.0, 7.0, 0),
    }


def test_a_prompt_that_does_not_fit_holds_up_shorter_ones_behind_it() -> None:
    # The first holds 7 of 10 blocks until 3.0; the second needs 5, the third 1.
    assert served(
        SETTINGS,
        Request(0, 0.0, 26, 2),
        Request(1, 0.5, 20, 1),
        Request(2, 0.6, 1, 1),
    ) == {0: (2.0, 3.0, 0), 1: (5.0, 5.0, 0), 2: (5.0, 5.0, 0)}


def test_the_last_admitted_is_preempted_and_recomputed_with_what_it_has_generated() -> None:
    settings = replace(SETTINGS, kv_blocks=6, max_model_len=20)  # five usable
    first, second = Request(0, 0.0, 8, 9), Request(1, 0.0, 8, 6)
    # Both hold two blocks at 1.0. At 1.0 each needs a third: four are used, one is free, so the
    # first takes it and the second, with one token generated, goes back. The first grows to four
    # blocks (16 tokens) and ends at 9.0; then the second recomputes 9 tokens and has 4 to go.
    assert served(settings, first, second) == {0: (1.0, 9.0, 0), 1: (1.0, 14.0, 1)}


def test_a_preempted_request_goes_before_those_that_waited() -> None:
    settings = replace(SETTINGS, kv_blocks=6, max_model_len=20, max_num_seqs=2)
    result = served(settings, Request(0, 0.0, 8, 9), Request(1, 0.0, 8, 6), Request(2, 0.1, 8, 1))
    assert result[1] == (1.0, 14.0, 1)
    assert result[2][0] > 9.0


def test_the_reserved_block_is_given_to_nobody() -> None:
    engine = Engine(SETTINGS)
    engine.submit(Request(0, 0.0, 39, 1), 0.0)
    engine.advance(2.5)
    gauges = engine.gauges()
    assert (gauges.used_blocks, gauges.usable_blocks) == (10, 10)
    assert gauges.kv_usage == 1.0
    with pytest.raises(ValueError, match="kv_blocks \\(10\\) hold no sequence of max_model_len"):
        replace(SETTINGS, kv_blocks=10)


def test_gauges_between_two_steps_count_the_steps_that_are_done() -> None:
    engine = Engine(SETTINGS)
    engine.submit(Request(0, 0.0, 4, 10), 0.0)
    engine.advance(4.5)  # prefill and three decodes are done, the fourth is under way
    gauges = engine.gauges()
    assert gauges.generation_tokens_total == 4
    assert gauges.prompt_tokens_total == 4
    assert gauges.used_blocks == 2  # 4 + 4 tokens
    assert (gauges.running, gauges.waiting, gauges.finished_total) == (1, 0, 0)


def test_steps_get_slower_as_the_resident_tokens_grow() -> None:
    slow = replace(SECOND, kv_token=0.1)
    # Prefill reads 4 tokens: 1.4 s; the decodes read 5 and 6: 1.5 and 1.6 s.
    first, last, _ = served(replace(SETTINGS, step=slow), Request(0, 0.0, 4, 3))[0]
    assert first == pytest.approx(1.4)
    assert last == pytest.approx(4.5)


def test_a_request_beyond_the_models_length_is_not_accepted() -> None:
    engine = Engine(SETTINGS)
    assert SETTINGS.accepts(Request(0, 0.0, 20, 20))
    assert not SETTINGS.accepts(Request(0, 0.0, 20, 21))
    with pytest.raises(ValueError, match="longer than max_model_len"):
        engine.submit(Request(0, 0.0, 20, 21), 0.0)


def test_time_runs_forwards() -> None:
    engine = Engine(SETTINGS)
    engine.advance(5.0)
    with pytest.raises(ValueError, match="before what the engine has seen"):
        engine.submit(Request(0, 0.0, 1, 1), 4.0)
    with pytest.raises(ValueError, match=r"back from 5\.0 to 4\.0"):
        engine.advance(4.0)


def test_an_idle_engine_waits_for_nothing_and_takes_up_work_when_it_comes() -> None:
    engine = Engine(SETTINGS)
    assert engine.next_event == inf
    assert engine.advance(100.0) == []
    engine.submit(Request(0, 100.0, 1, 1), 100.0)
    assert engine.next_event == 100.0
    assert engine.outstanding == 1
    assert [f.finished_at for f in engine.advance(200.0)] == [101.0]
    assert engine.outstanding == 0


def test_what_is_unfinished_is_told_with_its_preemptions_oldest_first() -> None:
    settings = replace(SETTINGS, kv_blocks=6, max_model_len=20)
    engine = Engine(settings)
    first, second = Request(0, 0.0, 8, 9), Request(1, 0.0, 8, 6)
    late = Request(2, 90.0, 1, 1)
    for request in (first, second, late):
        engine.submit(request, request.arrived_at)
    engine.advance(3.0)
    assert engine.unfinished() == [(first, 0), (second, 1), (late, 0)]


def test_an_engine_is_set_up_from_its_capacity() -> None:
    capacity = EngineCapacity(
        block_tokens=16,
        bytes_per_block=2 << 20,
        weight_bytes_per_device=0,
        kv_memory_bytes=Band.point(0),
        kv_blocks=Band(90, 100, 110),
        reserved_blocks=1,
        kv_cache_size_tokens=Band.point(1600),
        max_concurrency_milli=Band.point(1000),
        max_model_len=1024,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        devices=1,
    )
    settings = EngineSettings.of(capacity, SECOND)
    assert settings.usable_blocks == 99
    assert (settings.max_model_len, settings.max_num_seqs) == (1024, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_tokens": 0}, "block_tokens must be at least 1, not 0"),
        ({"max_num_batched_tokens": 4}, "max_num_batched_tokens \\(4\\) must be at least"),
        ({"step": replace(SECOND, fixed=0.0)}, "a step that takes no time never ends"),
    ],
)
def test_settings_that_no_engine_starts_with_are_refused(
    change: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **change)


@pytest.mark.parametrize(("prompt", "output"), [(0, 1), (1, 0), (-3, 5)])
def test_a_request_has_at_least_a_token_in_and_a_token_out(prompt: int, output: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Request(7, 0.0, prompt, output)
