"""One pod's series to samples: names by version, engines, models, and everything that is wrong."""

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.sample import EngineSample
from kvscale.core.engines.vllm.metrics import (
    CACHE_CONFIG,
    KV_USAGE,
    KV_USAGE_V0,
    PREEMPTIONS,
    RUNNING,
    SERIES_NAMES,
    SLEEP_STATE,
    WAITING,
    WAITING_BY_REASON,
    Series,
    read_pod,
)
from kvscale.core.values import Unknown

DATA = Path(__file__).parents[3] / "data" / "metrics"


def gauge(name, value, **labels):
    return Series(name, labels, value)


def engine(index="0", usage=0.5, running=3.0, waiting=1.0, model="llama"):
    labels = {"engine": index, "model_name": model}
    return [
        Series(KV_USAGE, labels, usage),
        Series(RUNNING, labels, running),
        Series(WAITING, labels, waiting),
    ]


def reason_of(result):
    assert isinstance(result, Unknown), result
    return result.reason


def test_an_engine_of_today_is_read():
    assert read_pod(engine()) == (EngineSample("0", 0.5, 3, 1),)


def test_a_v0_server_without_engine_label_is_engine_0():
    series = [
        gauge(KV_USAGE_V0, 0.25, model_name="m"),
        gauge(RUNNING, 2.0, model_name="m"),
        gauge(WAITING, 0.0, model_name="m"),
        Series(CACHE_CONFIG, {"num_gpu_blocks": "4574", "block_size": "16"}, 1.0),
    ]
    assert read_pod(series) == (EngineSample("0", 0.25, 2, 0, kv_blocks=4574, block_tokens=16),)


def test_the_current_name_of_the_usage_wins_over_the_deprecated_one():
    series = [*engine(usage=0.5), gauge(KV_USAGE_V0, 0.4, engine="0", model_name="llama")]
    assert read_pod(series)[0].kv_usage == 0.5


@pytest.mark.parametrize("usage", [-1.0, -1e-9, math.nan, math.inf, -math.inf, 1.0000001, 87.5])
def test_an_impossible_usage_is_unknown_and_never_zero(usage):
    assert reason_of(read_pod(engine(usage=usage))) == "InvalidSeries"


@pytest.mark.parametrize("usage", [0.0, 1.0])
def test_an_empty_and_a_full_cache_are_values(usage):
    assert read_pod(engine(usage=usage))[0].kv_usage == usage


@pytest.mark.parametrize("count", [-1.0, math.nan, math.inf, 2.5, 1e300])
@pytest.mark.parametrize("field", ["running", "waiting"])
def test_an_impossible_number_of_requests_is_unknown(field, count):
    assert reason_of(read_pod(engine(**{field: count}))) == "InvalidSeries"


@pytest.mark.parametrize("missing", [KV_USAGE, RUNNING, WAITING])
def test_a_missing_gauge_is_unknown_by_name(missing):
    result = read_pod([one for one in engine() if one.name != missing])
    assert reason_of(result) == "IncompleteSeries"
    assert missing in result.message


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_broken_counter_reads_as_not_reported(value):
    series = [*engine(), gauge(PREEMPTIONS, value, engine="0", model_name="llama")]
    assert read_pod(series)[0].preemptions_total is None


def test_disabled_log_stats_are_named_with_the_mend():
    result = read_pod([gauge("process_resident_memory_bytes", 5e9)])
    assert reason_of(result) == "NoEngineSeries"
    assert "--disable-log-stats" in result.message


def test_requests_waiting_for_an_event_do_not_count_as_waiting_for_capacity():
    series = engine(waiting=12.0) + [
        gauge(WAITING_BY_REASON, value, engine="0", model_name="llama", reason=reason)
        for reason, value in (("capacity", 9.0), ("deferred", 3.0))
    ]
    assert read_pod(series)[0].waiting == 9


@pytest.mark.parametrize(("awake", "known"), [(1.0, True), (0.0, False)])
def test_a_sleeping_engine_is_unknown_although_it_reports_no_load(awake, known):
    series = [
        *engine(usage=0.0, running=0.0, waiting=0.0),
        gauge(SLEEP_STATE, awake, engine="0", model_name="llama", sleep_state="awake"),
        gauge(SLEEP_STATE, 1 - awake, engine="0", model_name="llama", sleep_state="discard_all"),
    ]
    result = read_pod(series)
    assert (not isinstance(result, Unknown)) is known
    assert known or result.reason == "EngineAsleep"


def test_every_data_parallel_engine_is_a_sample_in_order_of_its_index():
    series = [one for index in ("10", "2", "0") for one in engine(index, usage=int(index) / 10)]
    assert [(one.engine, one.kv_usage) for one in read_pod(series)] == [
        ("0", 0.0),
        ("2", 0.2),
        ("10", 1.0),
    ]


def test_one_incomplete_engine_makes_the_pod_unknown():
    series = engine("0") + engine("1")[:-1]
    assert reason_of(read_pod(series)) == "IncompleteSeries"


def test_blocks_that_a_server_sums_over_its_engines_are_divided_again():
    info = {"num_gpu_blocks": "8001", "kv_cache_size_tokens": "64000", "block_size": "16"}
    series = engine("0") + engine("1")
    series += [Series(CACHE_CONFIG, {**info, "engine": index}, 1.0) for index in ("0", "1")]
    first, second = read_pod(series)
    assert (first.kv_blocks, first.kv_cache_size_tokens) == (4000, 64000)
    assert second.kv_blocks == 4000


@pytest.mark.parametrize("text", ["None", "", "0", "-1", "1e3", "12.0", "٣", "9" * 400])
def test_a_fact_that_is_no_positive_integer_is_not_reported(text):
    labels = dict.fromkeys(("num_gpu_blocks", "block_size", "kv_cache_size_tokens"), text)
    (sample,) = read_pod([*engine(), Series(CACHE_CONFIG, {**labels, "engine": "0"}, 1.0)])
    assert (sample.kv_blocks, sample.block_tokens, sample.kv_cache_size_tokens) == (None,) * 3


def test_several_models_want_a_choice():
    series = engine(model="a") + engine(model="b", usage=0.75)
    assert reason_of(read_pod(series)) == "SeveralModels"
    assert read_pod(series, "b")[0].kv_usage == 0.75
    result = read_pod(series, "c")
    assert reason_of(result) == "ModelNotServed"
    assert "servedModelName" in result.message


def test_a_filter_keeps_the_facts_that_carry_no_model():
    info = Series(CACHE_CONFIG, {"engine": "0", "num_gpu_blocks": "7"}, 1.0)
    assert read_pod([*engine(), info], "llama")[0].kv_blocks == 7


def test_a_series_that_is_there_twice_is_unknown():
    assert reason_of(read_pod(engine() + engine(usage=0.1))) == "DuplicateSeries"


@pytest.mark.parametrize("label", ["", "a", "0 ", "12345", "٣"])
def test_an_engine_label_that_is_no_index_is_refused(label):
    assert reason_of(read_pod(engine(label))) == "InvalidSeries"


def test_no_message_repeats_what_a_server_wrote():
    secret = "s3cret"
    cases = [
        engine(secret),
        engine(model=secret) + engine(model="b"),
        [*engine(), *engine()],
        [gauge(KV_USAGE, 7357.0, engine="0", model_name=secret), *engine()[1:]],
    ]
    for series in cases:
        result = read_pod(series)
        assert isinstance(result, Unknown)
        assert secret not in result.message
        assert "7357" not in result.message


def test_each_name_read_occurs_in_some_release_of_vllm():
    with (DATA / "vllm_metric_names_by_version.csv").open() as file:
        known = {row["metric_name_as_in_source"] for row in csv.DictReader(file)}
    assert {
        name for name in SERIES_NAMES if not {name, name.removesuffix("_total")} & known
    } == set()


def test_every_name_that_0_26_still_has_is_exposed_by_its_server_under_that_very_name():
    lines = (DATA / "vllm_0.26.0_families.txt").read_text().splitlines()
    exposed = {line.split()[0] for line in lines if not line.startswith("#")}
    assert set(SERIES_NAMES) - exposed == {KV_USAGE_V0}


LABELS = st.dictionaries(
    st.sampled_from(["engine", "model_name", "reason", "sleep_state", "num_gpu_blocks"]),
    st.sampled_from(["", "0", "1", "llama", "capacity", "awake", "None"]) | st.text(max_size=4),
)
SERIES = st.builds(Series, st.sampled_from([*SERIES_NAMES, "other"]), LABELS, st.floats())


@given(st.lists(SERIES, max_size=20), st.sampled_from(["", "llama"]))
def test_whatever_is_exposed_the_answer_is_sound(series, model):
    result = read_pod(series, model)
    if isinstance(result, Unknown):
        assert result.reason
        assert result.message
        return
    assert result
    for sample in result:
        assert 0.0 <= sample.kv_usage <= 1.0
        assert sample.running >= 0
        assert sample.waiting >= 0


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.integers(0, 10**6).map(float), st.integers(0, 10**6).map(float)
        ),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_healthy_engines_come_back_as_reported_whatever_the_order(engines, random):
    series = [one for index, values in enumerate(engines) for one in engine(str(index), *values)]
    random.shuffle(series)
    assert read_pod(series) == tuple(
        EngineSample(str(index), usage, int(running), int(waiting))
        for index, (usage, running, waiting) in enumerate(engines)
    )
