"""SGLang servers as manifests start them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.arguments import Container, ServerArguments, read_arguments
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.values import Unknown

SGLANG = ("python3", "-m", "sglang.launch_server")


def read(*flags, command=SGLANG, image="lmsysorg/sglang:v0.5.9", env=None):
    found = read_arguments(Container("main", image, command, tuple(flags), env or {}))
    assert isinstance(found, ServerArguments), found
    return found


def test_the_usual_flags():
    found = read(
        "--model-path", "Qwen/Qwen3-8B", "--tp", "4", "--pp-size=2", "--mem-fraction-static", "0.85",
        "--context-length", "32768", "--kv-cache-dtype", "fp8_e4m3", "--max-running-requests", "128",
        "--chunked-prefill-size", "4096", "--page-size", "16", "--max-total-tokens", "100000",
        "--disable-radix-cache", "--disable-cuda-graph", "--served-model-name", "qwen",
        "--port", "30000", "--trust-remote-code", "--enable-metrics",
    )  # fmt: skip
    assert found.engine == EngineConfig(
        kind=EngineKind.SGLANG, version="0.5.9", model="Qwen/Qwen3-8B", tensor_parallel=4,
        pipeline_parallel=2, memory_utilization_milli=850, max_model_len=32_768,
        kv_cache_dtype="fp8_e4m3", max_num_seqs=128, max_num_batched_tokens=4096, block_size=16,
        enforce_eager=True, prefix_caching=False,
        options=SGLangOptions(max_total_tokens=100_000),
    )  # fmt: skip
    assert (found.served_model_name, found.port, found.unread) == ("qwen", 30_000, ())


@pytest.mark.parametrize(
    "command",
    [
        ("sglang", "serve", "--model-path", "m"),
        ("python", "-m", "sglang.launch_server", "--model", "m"),
        ("sh", "-c", "exec python3 -m sglang.launch_server --model-path m --tp-size 1"),
        ("sglang", "serve", "m"),
    ],
)
def test_spellings_of_the_program(command):
    found = read(command=command)
    assert (found.engine.kind, found.engine.model) == (EngineKind.SGLANG, "m")


@pytest.mark.parametrize("name", ["--tp", "--tp-size", "--tensor-parallel-size"])
@pytest.mark.parametrize("joined", [True, False])
def test_spellings_of_a_flag(name, joined):
    flags = (f"{name}=8",) if joined else (name, "8")
    assert read("--model-path", "m", *flags).engine.tensor_parallel == 8


def test_attention_dp_makes_engines_of_its_own():
    found = read("--model-path", "m", "--tp", "8", "--dp", "8", "--enable-dp-attention").engine
    assert (found.tensor_parallel, found.data_parallel) == (1, 8)
    assert found.options.dp_attention
    half = read("--model-path", "m", "--tp", "16", "--dp", "4", "--enable-dp-attention").engine
    assert (half.tensor_parallel, half.data_parallel) == (4, 4)
    plain = read("--model-path", "m", "--tp", "2", "--dp", "4").engine
    assert (plain.tensor_parallel, plain.data_parallel, plain.options.dp_attention) == (2, 4, False)
    uneven = read("--model-path", "m", "--tp", "8", "--dp", "3", "--enable-dp-attention")
    assert [one.field for one in uneven.unread] == ["data_parallel"]


def test_what_only_sglang_has():
    options = read(
        "--model-path", "m", "--speculative-algorithm", "eagle", "--speculative-num-draft-tokens", "4",
        "--mamba-full-memory-ratio", "1.5", "--max-mamba-cache-size", "64",
        "--swa-full-tokens-ratio", "0.3", "--disable-hybrid-swa-memory", "--moe-a2a-backend", "deepep",
        "--mamba-scheduler-strategy", "extra_buffer", "--cuda-graph-max-bs", "64",
        "--attention-backend", "flashmla", "--disable-overlap-schedule",
    )  # fmt: skip
    assert options.engine.speculative_tokens == 4
    assert options.engine.options == SGLangOptions(
        speculative="EAGLE", mamba_ratio_milli=1500, max_mamba_cache_size=64, swa_ratio_ppm=300_000,
        hybrid_swa=False, deepep=True, mamba_strategy="extra_buffer", graph_batch=64,
        attention_backend="flashmla", overlap=False,
    )  # fmt: skip


def test_prefill_that_is_not_chunked_has_the_budget_of_a_prefill():
    assert read(
        "--model-path", "m", "--chunked-prefill-size", "-1"
    ).engine.max_num_batched_tokens == (16_384)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_one_side_of_disaggregated_serving_is_refused(role):
    command = (*SGLANG, "--model-path", "m", f"--disaggregation-mode={role}")
    found = read_arguments(Container("main", "image", command))
    assert isinstance(found, Unknown)
    assert found.reason == "DisaggregatedServer"
    assert role in found.message


def test_what_cannot_be_read_is_named_with_its_mend():
    found = read("--model-path", "$(MODEL)", "--tp-size", "$(TP)", "--mem-fraction-static", "1.5")
    assert {one.field for one in found.unread} == {
        "model", "tensor_parallel", "memory_utilization_milli",
    }  # fmt: skip
    by_field = {one.field: one.message for one in found.unread}
    assert "targets[].engine.tensorParallel" in by_field["tensor_parallel"]
    assert "spec.model" in by_field["model"]
    file = read("--config", "/etc/sglang.yaml", "--model-path", "m", "--tp", "2")
    assert {one.field for one in file.unread} == {
        "memory_utilization_milli", "kv_cache_dtype", "max_model_len",
    }  # fmt: skip


def test_a_rule_that_is_not_followed_is_said():
    found = read("--model-path", "m", env={"SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "1"})
    assert any("POST_CAPTURE" in note for note in found.notes)
    assert read("--model-path", "m", "--enable-lora").notes


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("lmsysorg/sglang:v0.5.9", "0.5.9"),
        ("lmsysorg/sglang:v0.5.6.post2-cu130", "0.5.6"),
        ("lmsysorg/sglang:latest", None),
        ("registry.example/custom:v0.5.9", None),
    ],
)
def test_the_version_of_an_image(image, version):
    assert read("--model-path", "m", image=image).engine.version == version


@given(st.lists(st.text(max_size=20), max_size=12))
def test_no_arguments_break_the_reader(words):
    found = read_arguments(Container("main", "image", (*SGLANG, *words)))
    assert isinstance(found, ServerArguments | Unknown)
