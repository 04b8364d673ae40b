"""`kvscale capacity --calibrate`: the log of one start answers for the others, or is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvscale.cli.app import app
from kvscale.cli.output import run

Kvscale = Callable[..., tuple[int, str, str]]
GIB = 1 << 30
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
ARGUMENTS = (
    "(APIServer pid=1) INFO 11-20 10:00:00 [api_utils.py:286] non-default args: {'model_tag': "
    f"'{LLAMA}', 'max_model_len': 8192, 'gpu_memory_utilization': 0.9, 'model': '{LLAMA}'}}\n"
)
REST = (
    "(EngineCore pid=9) INFO 11-20 10:00:10 [core.py:133] Initializing a V1 LLM engine (v0.31.0) "
    f"with config: model='{LLAMA}', speculative_config=None, dtype=torch.bfloat16, "
    "max_seq_len=8192, tensor_parallel_size=1, pipeline_parallel_size=1, quantization=None, "
    "enforce_eager=False, kv_cache_dtype=auto, device_config=cuda\n"
    "(EngineCore pid=9) INFO [gpu_model_runner.py:4566] Model loading took 14.99 GiB memory\n"
    "(EngineCore pid=9) INFO [gpu_worker.py:436] Available KV cache memory: 3.61 GiB\n"
)
ON_L4 = ("--gpu", "L4", "--model", LLAMA)


@pytest.fixture
def kvscale(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Kvscale:
    def call(text: str, *arguments: str) -> tuple[int, str, str]:
        log = tmp_path / "boot.log"
        log.write_text(text, encoding="utf-8")
        code = run(app, ["capacity", "--calibrate", str(log), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def document(kvscale: Kvscale, text: str, *arguments: str) -> dict[str, Any]:
    code, out, err = kvscale(text, *arguments, "-o", "json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def mistake(kvscale: Kvscale, text: str, *arguments: str) -> str:
    code, out, err = kvscale(text, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


def test_the_start_itself_and_another_fraction_are_met(kvscale: Kvscale) -> None:
    same = document(kvscale, ARGUMENTS + REST, *ON_L4)["kvMemoryBytes"]
    assert same["expected"] / GIB == pytest.approx(3.61, abs=0.001)
    more = document(kvscale, ARGUMENTS + REST, *ON_L4, "--gpu-memory-utilization", "0.92")
    memory = more["kvMemoryBytes"]
    assert memory["expected"] / GIB == pytest.approx(3.61 + 0.02 * 22.27, abs=0.001)
    assert memory["high"] - memory["low"] < 0.02 * GIB


def test_the_version_and_the_length_are_those_of_the_log(kvscale: Kvscale) -> None:
    found = document(kvscale, ARGUMENTS + REST, *ON_L4)
    assert not any("version is not known" in line for line in found["assumptions"])
    assert found["maxConcurrency"] == pytest.approx(3.61, abs=0.01)


def test_a_log_without_a_fraction_takes_one_that_is_stated(kvscale: Kvscale) -> None:
    asked = (*ON_L4, "--gpu-memory-utilization", "0.92")
    assert "--calibrate-utilization" in mistake(kvscale, REST, *asked)
    stated = document(kvscale, REST, *asked, "--calibrate-utilization", "0.9")
    expected = document(kvscale, ARGUMENTS + REST, *asked)
    assert stated["kvMemoryBytes"] == expected["kvMemoryBytes"]


@pytest.mark.parametrize(
    ("text", "more", "what"),
    [
        (ARGUMENTS + REST.replace("3.61", "40.61"), ON_L4, "40.61 GiB for KV"),
        (ARGUMENTS + REST, ("--gpu", "L4", "--model", "Qwen/Qwen3-8B"), f"the log is of {LLAMA}"),
        (ARGUMENTS + REST, (*ON_L4, "--calibrate-utilization", "0.8"), "the log states 0.9"),
        (ARGUMENTS + REST, (*ON_L4, "--calibrate-utilization", "90"), "such as 0.9"),
        (ARGUMENTS + REST, (*ON_L4, "--tensor-parallel", "2"), "tensor_parallel_size 1"),
        (ARGUMENTS + REST, (*ON_L4, "--engine", "sglang"), "SGLang"),
    ],
)
def test_a_log_that_cannot_be_is_refused(
    kvscale: Kvscale, text: str, more: tuple[str, ...], what: str
) -> None:
    assert what in mistake(kvscale, text, *more)


def test_a_fraction_without_a_log_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["capacity", *ON_L4, "--calibrate-utilization", "0.9"]) == 2
    assert "--calibrate LOG" in capsys.readouterr().err


def test_the_metric_of_a_running_engine_is_a_start_too(kvscale: Kvscale) -> None:
    """As its page shows it; at its own fraction the blocks come back as they are."""
    metric = (
        'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",'
        'gpu_memory_utilization="0.9",num_gpu_blocks="2400",num_gpu_blocks_override="None"} 1.0\n'
    )
    asked = (*ON_L4, "--max-model-len", "8192", "--engine-version", "0.32", "-o", "json")
    code, out, err = kvscale(metric, *asked)
    assert (code, err) == (0, "")
    assert json.loads(out)["kvBlocks"] == 2400
    _, out, _ = kvscale(metric, *asked, "--memory-utilization", "0.95")
    more = 0.05 * 22.27 * GIB / 2_097_152
    assert json.loads(out)["kvBlocks"] == pytest.approx(2400 + more, abs=2)
