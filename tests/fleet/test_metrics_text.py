"""The rendered page, read back by the parser that the operator uses, and against real dumps."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvscale.core.capacity.roofline import StepTime
from kvscale.fleet.metrics_text import Exposition, Names, metrics_text
from kvscale.sim.request import Gauges
from kvscale.sim.settings import EngineSettings

SETTINGS = EngineSettings(
    kv_blocks=4575,
    block_tokens=16,
    max_num_seqs=256,
    max_num_batched_tokens=2048,
    max_model_len=8192,
    step=StepTime(
        fixed=0.001, dense=0.0, sparse=(), kv_token=0.0, compute_token=0.0, compute_pair=0.0
    ),
)
BUSY = Gauges(
    running=3,
    waiting=2,
    used_blocks=2287,
    usable_blocks=4574,
    preemptions_total=7,
    prompt_tokens_total=6_634_254_336,
    generation_tokens_total=2546,
    finished_total=9,
)
IDLE = Gauges(0, 0, 0, 4574, 0, 0, 0, 0)
MODEL = 'meta-llama/Llama-3.1-8B "instruct"\\x'


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def page(names: Names = Names.CURRENT, *engines: Gauges, tokens: int | None = None) -> str:
    exposition = Exposition(MODEL, names, kv_cache_size_tokens=tokens)
    return metrics_text(engines or (BUSY,), SETTINGS, exposition, started_at=1_700_000_000.0)


def test_current_names_carry_the_state_through_the_parser() -> None:
    labels = (("engine", "0"), ("model_name", MODEL))
    samples = read(page())
    assert {name: value for (name, own), value in samples.items() if own == labels} == {
        "vllm:num_requests_running": 3,
        "vllm:num_requests_waiting": 2,
        "vllm:kv_cache_usage_perc": 0.5,
        "vllm:prefix_cache_queries_total": 0,
        "vllm:prefix_cache_queries_created": 1_700_000_000,
        "vllm:prefix_cache_hits_total": 0,
        "vllm:prefix_cache_hits_created": 1_700_000_000,
        "vllm:num_preemptions_total": 7,
        "vllm:num_preemptions_created": 1_700_000_000,
        "vllm:prompt_tokens_total": 6_634_254_336,
        "vllm:prompt_tokens_created": 1_700_000_000,
        "vllm:generation_tokens_total": 2546,
        "vllm:generation_tokens_created": 1_700_000_000,
    }
    reasons = {
        dict(own)["finished_reason"]: value
        for (name, own), value in samples.items()
        if name == "vllm:request_success_total"
    }
    assert reasons == {"stop": 9, "length": 0, "abort": 0, "error": 0}
    waiting = {
        dict(own)["reason"]: value
        for (name, own), value in samples.items()
        if name == "vllm:num_requests_waiting_by_reason"
    }
    assert waiting == {"capacity": 2, "deferred": 0}


def test_types_and_families_are_those_of_a_real_server() -> None:
    # From the family list of vllm-openai-cpu:v0.26.0 (kubernetes-sigs/inference-perf,
    # e2e/testdata/vllm_metric_families/v0.26.0.txt, Apache-2.0).
    real = {
        "vllm:cache_config_info": "gauge",
        "vllm:generation_tokens_total": "counter",
        "vllm:kv_cache_usage_perc": "gauge",
        "vllm:num_preemptions_total": "counter",
        "vllm:num_requests_running": "gauge",
        "vllm:num_requests_waiting": "gauge",
        "vllm:num_requests_waiting_by_reason": "gauge",
        "vllm:prefix_cache_hits_total": "counter",
        "vllm:prefix_cache_queries_total": "counter",
        "vllm:prompt_tokens_total": "counter",
        "vllm:request_success_total": "counter",
    }
    types = dict(line.split()[2:4] for line in page().splitlines() if line.startswith("# TYPE"))
    assert {n: t for n, t in types.items() if not n.endswith("_created")} == real


def test_the_page_of_v0_has_the_lines_of_a_real_dump() -> None:
    # facebook/opt-125m, vLLM of June 2024 (DataDog/integrations-core, BSD-3-Clause).
    text = metrics_text(
        [Gauges(0, 0, 0, 7280, 0, 5, 7, 1)],
        SETTINGS,
        Exposition("facebook/opt-125m", Names.V0, gpu_memory_utilization=0.9),
        started_at=0.0,
    )
    real = """\
# HELP vllm:num_requests_running Number of requests currently running on GPU.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="facebook/opt-125m"} 0.0
# HELP vllm:num_requests_swapped Number of requests swapped to CPU.
vllm:num_requests_swapped{model_name="facebook/opt-125m"} 0.0
# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.
vllm:gpu_cache_usage_perc{model_name="facebook/opt-125m"} 0.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="facebook/opt-125m"} 0.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
vllm:prompt_tokens_total{model_name="facebook/opt-125m"} 5.0
vllm:generation_tokens_total{model_name="facebook/opt-125m"} 7.0
# HELP vllm:cache_config_info information of cache_config
"""
    lines = text.splitlines()
    assert [line for line in real.splitlines() if line not in lines] == []
    assert "engine=" not in text
    assert "_created" not in text


def test_early_v1_has_the_old_cache_name_and_an_engine_label() -> None:
    names = {name for name, _ in read(page(Names.EARLY_V1))}
    assert "vllm:gpu_cache_usage_perc" in names
    assert "vllm:gpu_prefix_cache_queries_total" in names
    assert "vllm:kv_cache_usage_perc" not in names
    assert 'vllm:num_requests_running{engine="0",' in page(Names.EARLY_V1)


def test_the_cache_configuration_is_all_strings_and_unset_is_none() -> None:
    text = page(Names.CURRENT, BUSY, IDLE, tokens=73_184)
    configs = [
        dict(own) for (name, own), value in read(text).items() if name == "vllm:cache_config_info"
    ]
    assert [config.pop("engine") for config in configs] == ["0", "1"]
    assert {config.pop("num_gpu_blocks") for config in configs} == {str(2 * SETTINGS.kv_blocks)}
    for config in configs:
        assert config == {
            "block_size": "16",
            "cache_dtype": "auto",
            "enable_prefix_caching": "False",
            "gpu_memory_utilization": "0.92",
            "kv_cache_memory_bytes": "None",
            "kv_cache_size_tokens": "73184",
            "num_cpu_blocks": "None",
            "num_gpu_blocks_override": "None",
            "sliding_window": "None",
        }


def test_a_version_that_does_not_state_its_capacity_has_no_such_label() -> None:
    assert "kv_cache_size_tokens" not in page()
    assert "kv_cache_size_tokens" not in page(Names.V0, tokens=1)


def test_data_parallel_engines_are_told_apart_by_their_label() -> None:
    samples = read(page(Names.CURRENT, BUSY, IDLE))
    running = {
        dict(own)["engine"]: value
        for (name, own), value in samples.items()
        if name == "vllm:num_requests_running"
    }
    assert running == {"0": 3, "1": 0}


def test_v0_knows_no_data_parallelism() -> None:
    with pytest.raises(ValueError, match="one engine, not several"):
        page(Names.V0, BUSY, IDLE)


@pytest.mark.parametrize("names", list(Names))
def test_every_family_has_a_help_and_a_type(names: Names) -> None:
    lines = page(names).splitlines()
    helped = {line.split()[2] for line in lines if line.startswith("# HELP")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    sampled = {line.split("{")[0] for line in lines if not line.startswith("#")}
    assert helped == typed == sampled
