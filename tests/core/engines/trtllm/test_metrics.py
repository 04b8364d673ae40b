"""TensorRT-LLM's own words: what a pod shows, and what is wrong."""

from pathlib import Path

import pytest

from kvscale.adapters.metrics_text import parse
from kvscale.core.engines.metrics import Series, read_pod
from kvscale.core.values import Unknown

DATA = Path(__file__).parents[3] / "data" / "metrics"


def reason_of(result):
    assert isinstance(result, Unknown), result
    return result.reason


def test_a_server_with_its_blocks():
    labels = {"model_name": "undefined", "engine_type": "undefined"}
    series = [
        Series(f"trtllm_{name}", labels, value)
        for name, value in (
            ("kv_cache_utilization", 0.5), ("num_requests_running", 7.0),
            ("num_requests_waiting", 2.0), ("kv_cache_max_blocks", 16_384.0),
            ("kv_cache_tokens_per_block", 32.0),
        )
    ]  # fmt: skip
    (sample,) = read_pod(series, "nvidia/DeepSeek-R1-FP4")
    assert (sample.kv_usage, sample.running, sample.waiting) == (0.5, 7, 2)
    assert (sample.kv_blocks, sample.block_tokens) == (16_384, 32)
    assert sample.kv_cache_size_tokens == 524_288
    assert reason_of(read_pod(series[:2])) == "IncompleteSeries"
    assert reason_of(read_pod(series + series)) == "DuplicateSeries"


@pytest.mark.parametrize("name", ["trtllm_excerpts.prom", "triton_trtllm_v1_and_base.prom"])
def test_older_families_are_not_taken_for_nothing(name):
    series = parse((DATA / name).read_bytes())
    assert not isinstance(series, Unknown), series
    assert reason_of(read_pod(series)) == "NoEngineSeries"
