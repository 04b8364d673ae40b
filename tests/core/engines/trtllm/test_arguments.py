"""TensorRT-LLM servers as manifests start them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.arguments import Container, ServerArguments, read_arguments
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import TensorRtLlmOptions
from kvscale.core.values import Unknown

TRTLLM = ("trtllm-serve",)
IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.1.0"


def read(*flags, command=TRTLLM):
    found = read_arguments(Container("main", IMAGE, command, tuple(flags)))
    assert isinstance(found, ServerArguments), found
    return found


def test_the_usual_flags():
    found = read(
        "nvidia/Qwen3-8B-FP8", "--tp_size", "2", "--max_batch_size=64", "--max_num_tokens", "4096",
        "--max_seq_len", "32768", "--kv_cache_free_gpu_memory_fraction", "0.8", "--backend", "pytorch",
        "--host", "0.0.0.0", "--port", "8000", "--trust_remote_code",
    )  # fmt: skip
    assert found.engine == EngineConfig(
        kind=EngineKind.TENSORRT_LLM, version="1.1.0", model="nvidia/Qwen3-8B-FP8", tensor_parallel=2,
        max_num_seqs=64, max_num_batched_tokens=4096, max_model_len=32_768,
        memory_utilization_milli=800, options=TensorRtLlmOptions(),
    )  # fmt: skip
    assert (found.unread, found.notes, found.port) == ((), (), 8000)


@pytest.mark.parametrize("option", ["--extra_llm_api_options", "--config"])
def test_a_file_of_options_leaves_the_capacity_open_and_says_so(option):
    found = read(
        "m", option, "/etc/extra.yaml", "--tp_size", "2", command=("trtllm-serve", "serve")
    )
    assert found.engine.model == "m"
    assert {one.field for one in found.unread} == {
        "memory_utilization_milli", "kv_cache_dtype", "max_model_len",
    }  # fmt: skip
    assert all(option in one.message for one in found.unread)
    assert any("wins over the command line" in note for note in found.notes)


def test_attention_dp_makes_engines_of_its_own():
    found = read("m", "--tp_size", "8", "--enable_attention_dp").engine
    assert (found.tensor_parallel, found.data_parallel, found.options.attention_dp) == (1, 8, True)


@pytest.mark.parametrize(
    "flags", [("disaggregated", "-c", "x.yaml"), ("m", "--server_role", "CONTEXT")]
)
def test_one_side_of_disaggregated_serving_is_refused(flags):
    found = read_arguments(Container("main", "image", (*TRTLLM, *flags)))
    assert isinstance(found, Unknown)
    assert found.reason == "DisaggregatedServer"


@given(st.lists(st.text(max_size=20), max_size=12))
def test_no_arguments_break_the_reader(words):
    found = read_arguments(Container("main", "image", (*TRTLLM, *words)))
    assert isinstance(found, ServerArguments | Unknown)
