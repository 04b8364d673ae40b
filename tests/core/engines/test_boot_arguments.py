"""Settings as engines print them: every version's spelling of its own arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.boot_arguments import fraction_milli, settings
from kvscale.core.engines.boot_log import BootLog, parse_boot_log

KV = "Available KV cache memory: 8.29 GiB"

# How each version and launcher spells the fraction, as public logs show it; values are our own.
SPELLINGS = {
    "vLLM 0.6 to 0.8": "INFO 05-05 23:51:09 [api_server.py:1044] args: Namespace(subparser='serve', "
    "model_tag='/home/me/models/m', config='', host='0.0.0.0', allowed_origins=['*'], api_key=None, "
    "dtype='float16', gpu_memory_utilization=0.85, max_model_len=4096, dispatch_function=<function "
    "serve at 0x7f>)",
    "vLLM 0.9": "INFO 07-24 17:34:57 [cli_args.py:325] non-default args: {'model': '/mnt/m', "
    "'served_model_name': ['ui'], 'gpu_memory_utilization': 0.85, 'tensor_parallel_size': 2}",
    "vLLM 0.11": "(APIServer pid=5385) INFO 11-03 05:51:44 [utils.py:233] non-default args: "
    "{'model_tag': '/p/M-4B/', 'port': 8005, 'model': '/p/M-4B/', 'gpu_memory_utilization': 0.85, "
    "'enable_lora': True}",
    "the class of vLLM": "INFO 05-09 06:31:27 [utils.py:233] non-default args: {'dtype': 'bfloat16', "
    "'seed': 1234, 'gpu_memory_utilization': 0.85, 'disable_log_stats': True, 'model': 'a/b'}",
    "a draft model before it": "[utils.py:299] non-default args: {'model': 'a/b', "
    "'speculative_config': {'model': 'a/draft', 'gpu_memory_utilization': 0.3, "
    "'max_model_len': 99}, 'gpu_memory_utilization': 0.85}",
    "JSON": r'{"msg": "non-default args: {\"model\": \"a/b\", \"gpu_memory_utilization\": 0.85}"}',
    "the command": "+ exec vllm serve a/b --max-model-len 8192 --gpu-memory-utilization 0.85 --port 1",
    "the command, joined": "python3 -m vllm.entrypoints.openai.api_server --model a/b "
    "--gpu-memory-utilization=0.85",
    "at debug level": "Initial free memory: 21.9 GiB; Requested memory: 0.850000 (util), 18.93 GiB",
    "graphs counted": "The current --gpu-memory-utilization=0.8500 is equivalent to "
    "--gpu-memory-utilization=0.8300 without CUDA graph memory profiling.",
    "graphs not counted": "(the default as of v0.21.0) and increasing --gpu-memory-utilization from "
    "0.8500 to 0.8700.",
    "when it is ready": "Free memory on device (21.9/22.27 GiB) on startup. Desired GPU memory "
    "utilization is (0.85, 18.93 GiB).",
    "SGLang": "[2026-02-16 14:02:09] INFO engine.py:156: server_args=ServerArgs(model_path='q/q', "
    "model_loader_extra_config='{}', revision=None, mem_fraction_static=0.85, tp_size=1)",
    "SGLang's command": "python -m sglang.launch_server --model-path q/q --mem-fraction-static 0.85",
}  # fmt: skip


@pytest.mark.parametrize("line", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_the_fraction_is_read(line: str) -> None:
    found = parse_boot_log([line, KV])
    assert isinstance(found, BootLog)
    assert found.utilization_milli == 850


def test_a_draft_model_keeps_its_own_settings() -> None:
    found = parse_boot_log([SPELLINGS["a draft model before it"], KV])
    assert isinstance(found, BootLog)
    assert found.model == "a/b"
    assert "max_model_len" not in found.arguments


def test_a_line_that_was_cut_off_is_not_complete() -> None:
    whole = SPELLINGS["vLLM 0.9"]
    for line, complete in ((whole, True), (whole[: whole.index(", 'tensor")], False)):
        found = parse_boot_log([line, KV])
        assert isinstance(found, BootLog)
        assert found.complete_arguments == complete


def test_the_summary_of_the_engine_names_formats_without_quotes() -> None:
    line = (
        "(EngineCore pid=187) INFO 05-01 [core.py:109] Initializing a V1 LLM engine (v0.20.0) with "
        "config: model='org/M-NVFP4', speculative_config=SpeculativeConfig(method='mtp', "
        "model='org/draft', num_spec_tokens=3), dtype=torch.bfloat16, max_seq_len=8192, "
        "load_format=auto, tensor_parallel_size=1, quantization=compressed-tensors, "
        "enforce_eager=False, kv_cache_dtype=fp8_e4m3, device_config=cuda, "
        "compilation_config={'mode': 3, 'max_seq_len': 1}"
    )
    found = parse_boot_log([line, KV])
    assert isinstance(found, BootLog)
    assert (found.version, found.model) == ("0.20.0", "org/M-NVFP4")
    told = ("dtype", "quantization", "kv_cache_dtype", "max_seq_len", "enforce_eager")
    assert [found.arguments[name] for name in told] == [
        "torch.bfloat16", "compressed-tensors", "fp8_e4m3", "8192", "False",
    ]  # fmt: skip


def test_two_starts_of_a_script_are_told_apart() -> None:
    start = (
        "non-default args: {{'gpu_memory_utilization': {0}, 'model': 'a/b'}}\n"
        "Initializing a V1 LLM engine (v0.31.0) with config: model='a/b', max_seq_len=64\n"
        "Available KV cache memory: {1} GiB"
    )
    found = parse_boot_log((start.format(0.5, 1.25) + "\n" + start.format(0.8, 8.5)).splitlines())
    assert isinstance(found, BootLog)
    assert found.utilization_milli == 800
    assert found.kv is not None
    assert found.kv.expected == round(8.5 * (1 << 30))


def test_what_sglang_has_free_before_a_draft_model_is_not_its_total() -> None:
    found = parse_boot_log([
        "server_args=ServerArgs(model_path='q/q', mem_fraction_static=0.85)",
        "[TP0] Load weight begin. avail mem=78.43 GB",
        "[TP1] Load weight begin. avail mem=78.21 GB",
        "[TP0] Load weight end. elapsed=7 s, type=Qwen3ForCausalLM, avail mem=70.7 GB, mem usage=7.65 GB.",
        "[TP0] Load weight begin. avail mem=28.81 GB",
        "[TP0] Load weight end. elapsed=1 s, type=DraftForCausalLM, avail mem=28 GB, mem usage=0.8 GB.",
        "[TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 15, K size: 1.83 GB, V size: 1.83 GB",
    ])  # fmt: skip
    assert isinstance(found, BootLog)
    assert found.total is not None
    assert found.total.expected == round(78.21 * (1 << 30))
    assert found.architecture == "Qwen3ForCausalLM"


def test_the_architecture_is_the_first_that_is_resolved() -> None:
    found = parse_boot_log([
        "INFO [model.py:692] Resolved architecture: Qwen3_5MoeForConditionalGeneration",
        "INFO [model.py:692] Resolved architecture: Qwen3_5MoeMTP", KV,
    ])  # fmt: skip
    assert isinstance(found, BootLog)
    assert found.architecture == "Qwen3_5MoeForConditionalGeneration"


@pytest.mark.parametrize(("text", "milli"), [
    ("0.9", 900), (".92", 920), ("1", 1000), ("0", None), ("1.5", None), ("None", None), ("", None),
    ("9e-1", None), ("0.9.1", None),
])  # fmt: skip
def test_a_fraction_is_above_0_and_at_most_1(text: str, milli: int | None) -> None:
    assert fraction_milli(text) == milli


names = st.from_regex(r"[a-z][a-z_]{0,20}", fullmatch=True)
numbers = st.integers(0, 10**9) | st.booleans() | st.none()
texts = st.text(st.sampled_from("abZ09 .,:;=/-_([{<)]}é"), max_size=20)


@given(st.dictionaries(names, numbers | texts | st.dictionaries(names, numbers, max_size=3)))
def test_what_is_printed_is_read_back(printed: dict[str, object]) -> None:
    found, closed = settings(repr(printed)[1:])
    assert closed
    assert found == {
        name: value if isinstance(value, str) else str(value)
        for name, value in printed.items()
        if not isinstance(value, dict)
    }


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    settings(text)
