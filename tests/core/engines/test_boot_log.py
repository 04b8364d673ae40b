"""Reading start-up logs: every spelling, several ranks, and whatever else a log holds."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.boot_log import BootLog, boot_of_labels, parse_boot_log
from kvscale.core.engines.config import EngineKind
from kvscale.core.refusal import Refusal

GIB = 1 << 30
RED, OFF = "\x1b[1;31m", "\x1b[0m"


def boot(text: str) -> BootLog:
    found = parse_boot_log(text.splitlines())
    assert isinstance(found, BootLog), found
    return found


VLLM_0_10 = f"""
{RED}(APIServer pid=1){OFF} INFO 09-23 18:11:50 [api_server.py:1896] vLLM API server version 0.10.2
(APIServer pid=1) INFO 09-23 18:11:50 [utils.py:328] non-default args: {{'model_tag': 'org/model', \
'max_model_len': 4096, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.85, 'dtype': 'auto'}}
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:00 [core.py:75] Initializing a V1 LLM engine (v0.10.2) \
with config: model='org/model', max_seq_len=4096, tensor_parallel_size=2, enforce_eager=True
{RED}(Worker_TP0 pid=1){OFF} INFO [default_loader.py:268] Loading weights took 9.23 seconds
(Worker_TP0 pid=1) INFO [gpu_model_runner.py:2392] Model loading took 7.0786 GiB and 10.247948 seconds
(Worker_TP1 pid=2) INFO [gpu_model_runner.py:2392] Model loading took 7.0902 GiB and 10.24 seconds
(Worker_TP0 pid=1) INFO 09-23 18:12:33 [gpu_worker.py:298] Available KV cache memory: 55.15 GiB
(Worker_TP1 pid=2) INFO 09-23 18:12:33 [gpu_worker.py:298] Available KV cache memory: 54.98 GiB
(EngineCore_DP0 pid=3) INFO [kv_cache_utils.py:864] GPU KV cache size: 451,744 tokens
(EngineCore_DP0 pid=3) INFO [kv_cache_utils.py:868] Maximum concurrency for 4,096 tokens per \
request: 110.29x
(Worker_TP0 pid=1) INFO [gpu_worker.py:391] Free memory on device (78.66/79.19 GiB) on startup. \
Desired GPU memory utilization is (0.85, 67.31 GiB). Actual usage is 7.08 GiB for weight, 1.97 GiB \
for peak activation, 0.07 GiB for non-torch memory, and 0.67 GiB for CUDAGraph memory.
"""


def test_a_log_of_vllm_0_10_is_read_whole() -> None:
    found = boot(VLLM_0_10)
    assert found.kind is EngineKind.VLLM
    assert (found.version, found.model) == ("0.10.2", "org/model")
    assert found.kv is not None
    assert found.kv.expected == round(54.98 * GIB)
    assert found.weights is not None
    assert found.weights.expected == round(7.0902 * GIB)
    assert found.total is not None
    assert found.total.expected == round(79.19 * GIB)
    assert found.utilization_milli == 850
    assert (found.kv_tokens, found.length, found.concurrency_milli) == (451_744, 4096, 110_290)
    assert found.complete_arguments
    assert found.number("tensor_parallel_size") == 2
    assert found.arguments["enforce_eager"] == "True"


@pytest.mark.parametrize(
    ("text", "half"), [("51.38", 0.005), ("51.4", 0.005), ("13.0", 0.005), ("51.3812", 0.00005)]
)
def test_the_band_is_what_the_rounding_leaves_open(text: str, half: float) -> None:
    kv = boot(f"Available KV cache memory: {text} GiB").kv
    assert kv is not None
    assert kv.high - kv.low == 2 * round(half * GIB)
    assert kv.expected == round(float(text) * GIB)


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("INFO gpu_worker.py:692] Available KV cache memory: 34.79 GiB", 34.79),
        ("worker.py:267] ...; the rest of the memory reserved for KV Cache is 2.96GiB.", 2.96),
        ("worker.py:243] available_kv_cache_memory    53.29GiB", 53.29),
        ('{"log":"INFO Available KV cache memory: 4.04 GiB\\n","stream":"stderr"}', 4.04),
        (
            "2026-05-01 19:08:53.166 | (EngineCore pid=187) Available KV cache memory: 6.67 GiB",
            6.67,
        ),
        ("Available KV cache memory: -3.21 GiB", -3.21),
    ],
)
def test_every_spelling_of_the_kv_memory_is_read(line: str, gib: float) -> None:
    kv = boot(line).kv
    assert kv is not None
    assert kv.expected == round(gib * GIB)


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("Model loading took 14.0786 GiB and 10.247948 seconds", 14.0786),
        ("Model loading took 16.78 GiB memory and 25.177978 seconds", 16.78),
        ("model_runner.py:692] Loading model weights took 57.7520 GB", 57.752),
        ("model weights take 18.38GiB; non_torch_memory takes 0.15GiB", 18.38),
        ("Actual usage is 15.27 GiB for weight, 1.4 GiB for peak activation", 15.27),
    ],
)
def test_every_spelling_of_the_weights_is_read(line: str, gib: float) -> None:
    weights = boot(f"{line}\nAvailable KV cache memory: 1.0 GiB").weights
    assert weights is not None
    assert weights.expected == round(gib * GIB)


def test_a_log_of_the_first_engine_is_read() -> None:
    found = boot(
        "worker.py:267] the current vLLM instance can use total_gpu_memory (23.58GiB) x "
        "gpu_memory_utilization (0.94) = 22.29GiB\n"
        "the rest of the memory reserved for KV Cache is 2.96GiB.\n"
        "executor_base.py:112] # cuda blocks: 7,299, # CPU blocks: 2048"
    )
    assert found.total is not None
    assert found.total.expected == round(23.58 * GIB)
    assert (found.utilization_milli, found.blocks) == (940, 7299)


def test_the_bytes_that_vllm_prints_are_exact() -> None:
    found = boot(
        "Available KV cache memory: 55.15 GiB\nCurrent kv cache memory in use is 59212694937 bytes."
    )
    assert found.kv is not None
    assert found.kv.is_point
    assert found.kv.expected == 59_212_694_937


def test_the_exact_bytes_of_a_rank_with_more_memory_do_not_count() -> None:
    found = boot(
        "(Worker_TP1) Available KV cache memory: 50.02 GiB\n"
        "(Worker_TP0) Current kv cache memory in use is 59212694937 bytes."
    )
    assert found.kv is not None
    assert found.kv.expected == round(50.02 * GIB)


def test_a_given_size_is_told_apart_from_a_measured_one() -> None:
    found = boot(
        "Initial free memory 77.91 GiB, reserved 5.32 GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling."
    )
    assert found.kv_fixed
    assert found.kv is not None
    assert found.kv.expected == round(5.32 * GIB)


SGLANG = """
[2026-09-30 14:27:37] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.85, \
tp_size=2, max_total_tokens=None)
[2026-09-30 14:27:40 TP0] Load weight begin. avail mem=78.43 GB
[2026-09-30 14:27:40 TP1] Load weight begin. avail mem=78.21 GB
[2026-09-30 14:27:49 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, \
avail mem=70.7 GB, mem usage=7.65 GB.
[2026-09-30 14:27:50 TP0] KV Cache is allocated. #tokens: 430913, K size: 13.15 GB, V size: 13.15 GB
[2026-09-30 14:27:51] max_total_num_tokens=430913, chunked_prefill_size=8192, available_gpu_mem=8 GB
"""


def test_a_log_of_sglang_is_read() -> None:
    found = boot(SGLANG)
    assert found.kind is EngineKind.SGLANG
    assert found.model == "Qwen/Qwen3-8B"
    assert found.kv is not None
    assert found.kv.expected == 2 * round(13.15 * GIB)
    assert found.total is not None
    assert found.total.expected == round(78.21 * GIB)
    assert found.weights is not None
    assert (found.utilization_milli, found.kv_tokens) == (850, 430_913)
    assert found.number("tp_size") == 2


def test_a_latent_pool_of_sglang_has_one_size() -> None:
    kv = boot("KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB").kv
    assert kv is not None
    assert kv.expected == round(160.63 * GIB)


def test_the_last_complete_start_counts() -> None:
    start = "vLLM API server version {}\nAvailable KV cache memory: {} GiB\n"
    twice = start.format("0.20.0", "1.25") + start.format("0.33.0", "2.25")
    broken = twice + "vLLM API server version 0.33.1\nERROR no such file\n"
    for text in (twice, broken):
        found = boot(text)
        assert found.version == "0.33.0"
        assert found.kv is not None
        assert found.kv.expected == round(2.25 * GIB)


def test_the_banner_of_newer_servers_names_the_version() -> None:
    found = boot(
        "(APIServer pid=1) INFO 08-10 [api_utils.py:345]  ▄▄ ██ █     █     █ ▀▄▀ █  version 0.26.0\n"
        "Available KV cache memory: 23.9 GiB"
    )
    assert found.version == "0.26.0"


@pytest.mark.parametrize("text", ["", "garbage\n" * 10, "GPU KV cache usage: 15.0%", "\x00\xff"])
def test_what_is_no_log_is_refused_by_name(text: str) -> None:
    refusal = parse_boot_log(text.splitlines(), "--calibrate-line")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("NoBootLog", "--calibrate-line")
    assert "Available KV cache memory" in refusal.message


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_text_raises(lines: list[str]) -> None:
    assert isinstance(parse_boot_log(lines), BootLog | Refusal)


@given(
    st.sampled_from(
        ["Available KV cache memory: {} GiB", "Model loading took {} GiB", "GPU KV cache size: {}",
         "Free memory on device ({}/{} GiB)", "non-default args: {{{}", "ServerArgs({}",
         "Maximum concurrency for {} tokens per request: {}x", "# GPU blocks: {}"]
    ),
    st.text(alphabet="0123456789.,-eE'=: ", max_size=40),
)  # fmt: skip
def test_no_number_raises(line: str, number: str) -> None:
    filled = line.replace("{{", "{").replace("{}", number)
    assert isinstance(parse_boot_log([filled, "Available KV cache memory: 1.0 GiB"]), BootLog)


def test_a_long_log_is_read_once_and_not_kept() -> None:
    def lines() -> Iterator[str]:
        yield "Available KV cache memory: 8.29 GiB"
        for _ in range(100_000):
            yield 'INFO: 10.0.0.1 - "POST /v1/completions HTTP/1.1" 200 OK, KV cache usage: 15.0%'
        yield "x" * 5_000_000

    found = parse_boot_log(lines())
    assert isinstance(found, BootLog)
    assert found.kv is not None


def test_the_labels_of_a_running_engine_are_a_start_too() -> None:
    found = boot_of_labels({
        "num_gpu_blocks": "27468", "block_size": "16", "gpu_memory_utilization": "0.92",
        "kv_cache_memory_bytes": "None", "cache_dtype": "auto", "kv_cache_size_tokens": "439488",
    })  # fmt: skip
    assert isinstance(found, BootLog)
    assert (found.blocks, found.utilization_milli, found.kv_tokens) == (27_468, 920, 439_488)
    assert not found.kv_fixed


@pytest.mark.parametrize("blocks", ["None", "0", "-3", "many", ""])
def test_labels_without_blocks_are_refused(blocks: str) -> None:
    refusal = boot_of_labels({"num_gpu_blocks": blocks})
    assert isinstance(refusal, Refusal)
    assert "num_gpu_blocks" in refusal.message


def test_labels_of_a_given_size_say_so() -> None:
    found = boot_of_labels({"num_gpu_blocks": "10", "kv_cache_memory_bytes": "1073741824"})
    assert isinstance(found, BootLog)
    assert found.kv_fixed
