"""SGLang's own words: real pages, ranks, engines, and everything that is wrong."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.adapters.metrics_text import parse
from kvscale.core.engines.metrics import SERIES_NAMES, Series, read_pod
from kvscale.core.engines.sglang.metrics import (
    CACHED_TOKENS,
    MAX_TOKENS,
    PAGE_SIZE,
    PROMPT_TOKENS,
    QUEUED,
    RUNNING,
    TOKEN_USAGE,
    USED_TOKENS,
)
from kvscale.core.values import Unknown

DATA = Path(__file__).parents[3] / "data" / "metrics"


def page(name):
    series = parse((DATA / name).read_bytes())
    assert not isinstance(series, Unknown), series
    return series


def server(usage=0.25, running=3.0, waiting=1.0, **labels):
    return [
        Series(TOKEN_USAGE, labels, usage),
        Series(RUNNING, labels, running),
        Series(QUEUED, labels, waiting),
    ]


def reason_of(result):
    assert isinstance(result, Unknown), result
    return result.reason


def test_a_real_page_of_0_5_10():
    (sample,) = read_pod(page("sglang_0.5.10_opt125m_datadog.prom"))
    assert (sample.kv_usage, sample.running, sample.waiting) == (0.25, 0, 0)
    assert sample.kv_cache_size_tokens == 430_839
    assert (sample.prompt_tokens_total, sample.generation_tokens_total) == (5.0, 32.0)
    assert (sample.prefix_hits_total, sample.prefix_queries_total) == (1.0, 5.0)
    assert sample.kv_blocks is None  # it states no page size


def test_a_real_page_under_load():
    (sample,) = read_pod(
        page("sglang_docs_llama31_8b_overloaded.prom"), "meta-llama/Llama-3.1-8B-Instruct"
    )
    assert (sample.kv_usage, sample.running, sample.waiting) == (0.28, 162, 2826)
    assert sample.preemptions_total is None


def test_tokens_tell_the_share_more_exactly_than_its_two_digits():
    series = [*server(0.25), Series(USED_TOKENS, {}, 25_432.0), Series(MAX_TOKENS, {}, 100_000.0)]
    assert read_pod(series)[0].kv_usage == 0.25432
    # A hybrid model: another pool is fuller than the tokens tell.
    fuller = [*server(0.9), *series[3:]]
    assert read_pod(fuller)[0].kv_usage == 0.9


def test_pages_are_counted_where_they_are_stated():
    series = [*server(), Series(MAX_TOKENS, {}, 992_896.0), Series(PAGE_SIZE, {}, 64.0)]
    (sample,) = read_pod(series)
    assert (sample.kv_blocks, sample.block_tokens) == (15_514, 64)


def test_ranks_of_an_engine_are_one_engine():
    series = [
        one
        for rank in range(8)
        for one in server(0.2 + rank / 100, running=float(rank), tp_rank=str(rank), model_name="m")
    ]
    (sample,) = read_pod(series)
    assert (sample.engine, sample.running) == ("0", 7)
    assert sample.kv_usage == pytest.approx(0.27)


def test_data_parallel_ranks_are_engines_and_share_the_counters():
    series = [
        one
        for dp in range(4)
        for tp in range(2)
        for one in server(dp / 10, dp_rank=str(dp), tp_rank=str(tp), model_name="m")
    ]
    series += [
        Series(PROMPT_TOKENS, {"model_name": "m"}, 400.0),
        Series(CACHED_TOKENS, {"model_name": "m", "cache_source": "device"}, 30.0),
        Series(CACHED_TOKENS, {"model_name": "m", "cache_source": "host"}, 10.0),
    ]
    samples = read_pod(series)
    assert [sample.engine for sample in samples] == ["0", "1", "2", "3"]
    assert sum(sample.prompt_tokens_total for sample in samples) == 400.0
    assert sum(sample.prefix_hits_total for sample in samples) == 40.0


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        ([], "NoEngineSeries"),
        (server()[:2], "IncompleteSeries"),
        (server()[1:], "IncompleteSeries"),
        (server() + server(), "DuplicateSeries"),
        (server(usage=1.5), "InvalidSeries"),
        (server(usage=math.nan), "InvalidSeries"),
        (server(running=1.5), "InvalidSeries"),
        (server(waiting=-1.0), "InvalidSeries"),
        (server(dp_rank="x"), "InvalidSeries"),
        (server(model_name="a") + server(model_name="b"), "SeveralModels"),
        ([*server(), Series("vllm:num_requests_running", {}, 1.0)], "SeveralEngines"),
    ],
)
def test_what_is_wrong_is_unknown_and_never_zero(series, reason):
    assert reason_of(read_pod(series)) == reason


def test_a_nan_of_one_rank_is_not_hidden_by_another():
    for ranks in (("0", "1"), ("1", "0")):
        series = [*server(math.nan, tp_rank=ranks[0]), *server(0.5, tp_rank=ranks[1])]
        assert reason_of(read_pod(series)) == "InvalidSeries"


def test_the_model_asked_for():
    series = server(model_name="a") + server(0.5, model_name="b")
    assert read_pod(series, "b")[0].kv_usage == 0.5
    assert reason_of(read_pod(series, "c")) == "ModelNotServed"


@given(
    st.lists(
        st.builds(
            Series,
            st.sampled_from([name for name in SERIES_NAMES if name.startswith("sglang:")]),
            st.dictionaries(
                st.sampled_from(["tp_rank", "dp_rank", "model_name", "cache_source"]),
                st.sampled_from(["0", "1", "x"]),
            ),
            st.floats(allow_nan=True),
        ),
        max_size=20,
    )
)
def test_any_series_are_read_or_unknown(series):
    result = read_pod(series)
    if not isinstance(result, Unknown):
        assert all(0.0 <= sample.kv_usage <= 1.0 for sample in result)
