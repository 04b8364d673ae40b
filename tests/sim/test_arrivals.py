"""Traces as they are, and what is made of them under a label."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.sim.arrivals import TraceError, Workload, poisson, read_azure_trace, superpose

EXCERPT = Path(__file__).parents[2] / "examples" / "traces" / "azure_conversation_excerpt.csv"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def read(*rows: str, header: str = HEADER) -> Workload:
    return read_azure_trace([header, *rows], "trace.csv")


def test_the_excerpt_is_read_with_its_own_times_and_lengths() -> None:
    with EXCERPT.open() as lines:
        workload = read_azure_trace(lines, "azure")
    assert len(workload.requests) == 8240
    first, second = workload.requests[:2]
    assert (first.arrived_at, first.prompt_tokens, first.output_tokens) == (0.0, 382, 84)
    assert second.arrived_at > 0
    assert workload.seconds == pytest.approx(1200, abs=1)
    assert workload.requests_per_second == pytest.approx(6.87, abs=0.01)


def test_times_count_from_the_first_request_in_microseconds() -> None:
    workload = read("2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109")
    assert workload.requests[1].arrived_at == pytest.approx(4.314579)


def test_columns_are_found_by_name_and_comments_are_skipped() -> None:
    workload = read_azure_trace(
        [
            "# source: somewhere",
            "",
            "GeneratedTokens,TIMESTAMP,ContextTokens,extra",
            "7,2023-11-16 18:15:46,5,x",
        ],
        "trace.csv",
    )
    assert (workload.requests[0].prompt_tokens, workload.requests[0].output_tokens) == (5, 7)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["2023-11-16 18:15:46,0,1"], "line 2, ContextTokens: '0' is not a whole number above 0"),
        (["2023-11-16 18:15:46,1,1.5"], "line 2, GeneratedTokens: '1.5' is not a whole number"),
        (["2023-11-16 18:15:46,1,-2"], "line 2, GeneratedTokens: '-2'"),
        (["2023-11-16 18:15:46,1,\u0663"], "line 2, GeneratedTokens"),
        (["yesterday,1,1"], "line 2, TIMESTAMP: 'yesterday' is not YYYY-MM-DD"),
        (["2023-11-16 18:15:46,1"], "line 2: 2 cells, expected 3"),
        (
            ["2023-11-16 18:15:46,1,1", "2023-11-16 18:15:45,1,1"],
            "line 3, TIMESTAMP: earlier than the line before",
        ),
        (
            ["2023-11-16 18:15:46,1,1", "2023-11-16 18:15:47+00:00,1,1"],
            "line 3, TIMESTAMP: mixes time zones",
        ),
        ([], "no requests after the header"),
    ],
)
def test_a_bad_trace_is_refused_by_line_and_column(rows: list[str], message: str) -> None:
    with pytest.raises(TraceError) as error:
        read(*rows)
    assert message in str(error.value)


def test_a_header_without_a_column_is_refused_by_its_name() -> None:
    with pytest.raises(TraceError, match="header lacks GeneratedTokens"):
        read(header="TIMESTAMP,ContextTokens")
    with pytest.raises(TraceError, match="header lacks TIMESTAMP"):
        read_azure_trace([], "empty.csv")


@given(st.lists(st.text(max_size=40), max_size=8))
def test_a_file_of_anything_is_read_or_refused_and_nothing_else(rows: list[str]) -> None:
    try:
        workload = read(*rows)
    except TraceError:
        return
    assert workload.requests


def test_poisson_arrivals_repeat_with_their_seed_and_differ_without() -> None:
    lengths = ((10, 5), (20, 9))
    one = poisson(50.0, 100.0, lengths, seed=1)
    assert one == poisson(50.0, 100.0, lengths, seed=1)
    assert one.requests != poisson(50.0, 100.0, lengths, seed=2).requests
    assert one.requests_per_second == pytest.approx(50.0, rel=0.05)
    assert {(r.prompt_tokens, r.output_tokens) for r in one.requests} == set(lengths)
    assert all(0 < r.arrived_at < 100.0 for r in one.requests)


@pytest.mark.parametrize(
    ("rate", "seconds", "lengths"), [(0, 1, ((1, 1),)), (1, 0, ((1, 1),)), (1, 1, ())]
)
def test_poisson_refuses_a_rate_or_span_that_is_not_above_zero(
    rate: float, seconds: float, lengths: tuple[tuple[int, int], ...]
) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        poisson(rate, seconds, lengths, seed=0)


def test_superposition_multiplies_the_rate_keeps_the_lengths_and_says_so() -> None:
    base = poisson(5.0, 50.0, ((10, 5), (20, 9)), seed=1)
    four = superpose(base, 4, seed=7)
    assert four.requests_per_second == pytest.approx(4 * base.requests_per_second)
    assert sorted((r.prompt_tokens, r.output_tokens) for r in four.requests) == sorted(
        (r.prompt_tokens, r.output_tokens) for r in base.requests for _ in range(4)
    )
    times = [r.arrived_at for r in four.requests]
    assert times == sorted(times)
    assert {r.arrived_at for r in base.requests} <= set(times)
    assert [r.id for r in four.requests] == list(range(len(four.requests)))
    assert four.label == f"{base.label}, superposed 4 times (circular shifts, seed 7)"
    assert four == superpose(base, 4, seed=7)


def test_one_copy_is_the_trace_itself_under_its_own_label() -> None:
    base = poisson(5.0, 50.0, ((10, 5),), seed=1)
    assert superpose(base, 1, seed=7) is base
    with pytest.raises(ValueError, match="at least 1, not 0"):
        superpose(base, 0, seed=7)
