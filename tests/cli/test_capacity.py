"""`kvscale capacity`: a contract for scripts, a page for people, one line for mistakes."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvscale.app.capacity_document import KEYS
from kvscale.cli.app import app
from kvscale.cli.output import run

LLAMA = ("--model", "meta-llama/Llama-3.1-8B", "--gpu", "NVIDIA-L4")
EXACT = (*LLAMA, "--max-model-len", "8192", "--kv-memory-gib", "4", "--engine-version", "0.32")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}

Kvscale = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kvscale(capsys: pytest.CaptureFixture[str]) -> Kvscale:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(app, ["capacity", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def document(kvscale: Kvscale, *arguments: str) -> dict[str, Any]:
    code, out, err = kvscale(*arguments, "-o", "json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def mistake(kvscale: Kvscale, *arguments: str) -> str:
    code, out, err = kvscale(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("kvscale: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


def test_the_document_is_a_contract(kvscale: Kvscale) -> None:
    found = document(kvscale, *EXACT)
    assert tuple(found) == KEYS
    trace = found.pop("trace")
    # 4 GiB of 16 tokens at 131,072 bytes: 2,048 blocks, one of them reserved.
    assert found == {
        "model": "meta-llama/Llama-3.1-8B",
        "engine": {
            "kind": "vLLM",
            "version": "0.32",
            "tensorParallel": 1,
            "pipelineParallel": 1,
            "dataParallel": 1,
            "kvCacheDtype": "auto",
        },
        "devices": {
            "product": "NVIDIA-L4",
            "memoryBytes": found["devices"]["memoryBytes"],
            "perEngine": 1,
            "perReplica": 1,
        },
        "weightBytesPerDevice": found["weightBytesPerDevice"],
        "kvMemoryBytes": {"low": 4 << 30, "expected": 4 << 30, "high": 4 << 30},
        "layerGroups": [
            {
                "kind": "FullAttention",
                "kinds": {"FullAttention": 32},
                "layers": 32,
                "blockTokens": 16,
                "bytesPerBlock": 2_097_152,
            }
        ],
        "bytesPerBlock": 2_097_152,
        "kvBlocks": 2048,
        "usableBlocks": 2047,
        "kvCacheSizeTokens": 32_768,
        "maxConcurrency": 4.0,
        "maxModelLen": 8192,
        "maxNumSeqs": 256,
        "sequences": {"1024": 31, "2048": 15, "4096": 7, "8192": 3},
        "replica": {
            "engines": 1,
            "devices": 1,
            "kvCacheSizeTokens": 32_768,
            "sequences": {"1024": 31, "2048": 15, "4096": 7, "8192": 3},
            "running": {"1024": 31, "2048": 15, "4096": 7, "8192": 3},
        },
        "bands": {
            "kvBlocks": {"low": 2048, "expected": 2048, "high": 2048},
            "usableBlocks": {"low": 2047, "expected": 2047, "high": 2047},
            "kvCacheSizeTokens": {"low": 32_768, "expected": 32_768, "high": 32_768},
            "maxConcurrency": {"low": 4.0, "expected": 4.0, "high": 4.0},
            "sequences": {
                "1024": {"low": 31, "expected": 31, "high": 31},
                "2048": {"low": 15, "expected": 15, "high": 15},
                "4096": {"low": 7, "expected": 7, "high": 7},
                "8192": {"low": 3, "expected": 3, "high": 3},
            },
        },
        "assumptions": [],
        "refusal": None,
    }
    assert found["weightBytesPerDevice"] == pytest.approx(2 * 8.03e9, rel=0.005)
    assert {"bytesPerBlock", "kvBlocks", "usableBlocks"} <= {step["name"] for step in trace}
    assert set(trace[0]) == {"name", "value", "unit", "formula", "inputs", "source"}


def test_an_estimate_is_a_band_around_its_expected_number(kvscale: Kvscale) -> None:
    found = document(kvscale, *LLAMA, "--max-model-len", "8192")
    memory, blocks = found["kvMemoryBytes"], found["bands"]["kvBlocks"]
    assert memory["low"] < memory["expected"] < memory["high"]
    assert blocks["low"] < blocks["expected"] == found["kvBlocks"] < blocks["high"]


def test_the_page_says_the_same_as_the_document(kvscale: Kvscale) -> None:
    code, out, err = kvscale(*EXACT)
    assert (code, err) == (0, "")
    head = out[: out.index("\nHow\n")].splitlines()
    weights = next(line for line in head if line.startswith("weights"))
    assert head == [
        "meta-llama/Llama-3.1-8B on 1 x NVIDIA-L4, per engine",
        "",
        weights,
        "KV memory per device   4.00 GiB",
        "bytes per block        2,097,152 (16 tokens)",
        "KV blocks              2,048",
        "KV cache size, tokens  32,768",
        "max concurrency        4.00 sequences of 8,192 tokens",
        "largest batch          256 sequences (--max-num-seqs)",
        "",
        "What one block consists of, on one device",
        "layers         tables  layers each  tokens/block  bytes/block",
        "FullAttention       1           32            16    2,097,152",
        "",
        "Resident sequences of one engine by KV memory, by length",
        "tokens  blocks  low  expected  high  run at once",
        " 1,024      64   31        31    31           31",
        " 2,048     128   15        15    15           15",
        " 4,096     256    7         7     7            7",
        " 8,192     512    3         3     3            3",
    ]
    assert max(len(line) for line in out.splitlines()) <= 100
    assert "\x1b" not in out


def test_yaml_and_json_are_the_same_document(kvscale: Kvscale) -> None:
    _, out, _ = kvscale(*EXACT, "-o", "yaml")
    assert yaml.safe_load(out) == document(kvscale, *EXACT)


def test_a_config_file_and_its_directory_are_read_alike(kvscale: Kvscale, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    rest = ("--gpu", "H100", "--max-model-len", "8192", "--kv-memory-gib", "4")
    by_file = document(kvscale, "--config", str(file), *rest)
    assert by_file == document(kvscale, "--config", str(tmp_path), *rest)
    assert by_file["kvBlocks"] == 2048


def test_a_quantization_config_beside_it_is_read_too(kvscale: Kvscale, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    rest = ("--config", str(tmp_path), "--gpu", "H100", "--max-model-len", "8192")
    plain = document(kvscale, *rest)
    quantized = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    beside = tmp_path / "hf_quant_config.json"
    beside.write_text(json.dumps(quantized), encoding="utf-8")
    assert document(kvscale, *rest)["weightBytesPerDevice"] < 0.7 * plain["weightBytesPerDevice"]


def test_what_runs_is_capped_by_the_batch(kvscale: Kvscale) -> None:
    found = document(kvscale, *EXACT, "--max-num-seqs", "10")
    assert found["maxNumSeqs"] == 10
    assert found["sequences"]["1024"] == 31
    assert found["replica"]["running"] == {"1024": 10, "2048": 10, "4096": 7, "8192": 3}
    _, page, _ = kvscale(*EXACT, "--max-num-seqs", "10")
    assert " 1,024      64   31        31    31           10" in page


def test_a_replica_is_all_its_engines(kvscale: Kvscale) -> None:
    found = document(kvscale, *EXACT, "--data-parallel", "8", "--tensor-parallel", "2")
    replica = found["replica"]
    assert (replica["engines"], replica["devices"]) == (8, 16)
    assert found["devices"]["perReplica"] == 16
    assert replica["kvCacheSizeTokens"] == 8 * found["kvCacheSizeTokens"]
    assert replica["sequences"]["8192"] == 8 * found["sequences"]["8192"]
    _, page, _ = kvscale(*EXACT, "--data-parallel", "8", "--tensor-parallel", "2")
    assert "on 16 x NVIDIA-L4, per engine (8 engines of 2 devices)" in page
    assert "8 engines on 16 devices" in page
    assert max(len(line) for line in page.splitlines()) <= 100


def test_alike_tables_are_one_row_and_mixed_ones_name_their_kinds(kvscale: Kvscale) -> None:
    _, page, _ = kvscale("--model", "google/gemma-3-4b-it", "--gpu", "H100")
    rows = page[page.index("What one block") :].splitlines()[2:6]
    assert [row.split()[:3] for row in rows[:3]] == [
        ["SlidingWindow", "5", "5"],
        ["SlidingWindow", "1", "4"],
        ["FullAttention", "1", "5"],
    ]
    sparse = ("--model", "deepseek-ai/DeepSeek-V3.2", "--gpu", "H200", "--tensor-parallel", "8")
    _, page, _ = kvscale(*sparse)
    assert "61 SparseIndexer + 61 MLA" in page
    (group,) = document(kvscale, *sparse)["layerGroups"]
    assert group["kinds"] == {"SparseIndexer": 61, "MLA": 61}
    assert group["layers"] == 122


@pytest.mark.parametrize(("said", "meant"), [("8k", 8000), ("8K", 8192), ("8192", 8192)])
def test_a_length_is_read_as_a_server_reads_it(kvscale: Kvscale, said: str, meant: int) -> None:
    assert document(kvscale, *LLAMA, "--max-model-len", said)["maxModelLen"] == meant
    assert "'1e9'" in mistake(kvscale, *LLAMA, "--max-num-seqs", "1e9")


def test_auto_is_the_length_that_fits(kvscale: Kvscale) -> None:
    """As vLLM's `--max-model-len auto`: shorter than the model's where memory is short."""
    said = document(kvscale, *LLAMA, "--max-model-len", "auto")
    assert said == document(kvscale, *LLAMA, "--max-model-len", "-1")
    assert said["maxModelLen"] < 131_072
    assert said["maxConcurrency"] >= 1


def test_an_unknown_name_says_what_lists_the_known_ones(kvscale: Kvscale) -> None:
    assert "`kvscale devices`" in mistake(kvscale, "--model", "x", "--gpu", "H10")
    for name in ("meta-llama/Llama-3.1-8", "zzzz"):
        line = mistake(kvscale, "--model", name, "--gpu", "L4")
        assert "--config" in line
        assert "model.shape" not in line
        assert "configMapRef" not in line
    assert "`kvscale presets`" in line


def test_parallelism_and_dtype_reach_the_arithmetic(kvscale: Kvscale) -> None:
    one = document(kvscale, *EXACT)
    two = document(kvscale, *EXACT, "--tensor-parallel", "2")
    half = document(kvscale, *EXACT, "--kv-cache-dtype", "fp8")
    assert two["bytesPerBlock"] == half["bytesPerBlock"] == one["bytesPerBlock"] // 2
    assert two["kvBlocks"] == half["kvBlocks"] == 2 * one["kvBlocks"]


def test_a_refusal_is_one_line_and_for_scripts_an_object(kvscale: Kvscale) -> None:
    arguments = (*LLAMA, "--tensor-parallel", "3", "--max-model-len", "8192")
    assert "--tensor-parallel-size" in mistake(kvscale, *arguments)
    code, out, err = kvscale(*arguments, "-o", "json")
    found = json.loads(out)
    assert code == 2
    assert err.count("\n") == 1
    assert tuple(found) == KEYS
    assert found["refusal"]["reason"] == "InvalidParallelism"
    assert found["refusal"]["field"] == "--tensor-parallel-size"
    assert found["kvBlocks"] is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--gpu"),
        (("--gpu", "L4"), "--config or --model"),
        ((*LLAMA, "--config", "x"), "--config and --model exclude each other"),
        (("--gpu", "no-such-card", "--model", "Qwen/Qwen3-8B"), "--gpu"),
        (("--gpu", "L4", "--model", "no/such-model"), "--model"),
        (("--gpu", "L4", "--config", "/nonexistent/config.json"), "--config"),
        ((*LLAMA, "--memory-utilization", "90"), "--memory-utilization"),
        ((*LLAMA, "--memory-utilization", "nan"), "--memory-utilization"),
        ((*LLAMA, "--kv-memory-gib", "-1"), "--kv-memory-gib"),
        ((*LLAMA, "--kv-memory-gib", "inf"), "--kv-memory-gib"),
        ((*LLAMA, "--tensor-parallel", "two"), "--tensor-parallel"),
        ((*LLAMA, "--tensor-parallel", "0"), "--tensor-parallel"),
        ((*LLAMA, "--max-model-len", "99999999"), "--max-model-len"),
        ((*LLAMA, "--block-size", "0"), "--block-size"),
        ((*LLAMA, "--kv-cache-dtype", "int3"), "--kv-cache-dtype"),
        ((*LLAMA, "--engine-version", "banana"), "--engine-version"),
        ((*LLAMA, "--output", "xml"), "--output"),
        ((*LLAMA, "--no-such-option"), "--no-such-option"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(
    kvscale: Kvscale, arguments: tuple[str, ...], named: str
) -> None:
    assert named in mistake(kvscale, *arguments)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b"\xff\xfe\x00binary",
        b"[" * 100_000,
        b'{"hidden_size": ' + b"9" * 5000 + b"}",
        b'{"architectures": ["\\u001b[31mred\\u001b[0m\\n"]}',
        b" " * ((4 << 20) + 1),
    ],
    ids=["empty", "text", "list", "binary", "deep", "long-number", "escapes", "huge"],
)
def test_a_hostile_config_is_one_printable_line(
    kvscale: Kvscale, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    line = mistake(kvscale, "--config", str(file), "--gpu", "L4")
    assert line.rstrip("\n").isprintable()


def test_a_directory_without_a_config_is_named(kvscale: Kvscale, tmp_path: Path) -> None:
    assert "config.json" in mistake(kvscale, "--config", str(tmp_path), "--gpu", "L4")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.dictionaries(st.sampled_from(sorted(CONFIG)), values))
def test_no_config_makes_a_traceback(
    kvscale: Kvscale, tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, **changes}), encoding="utf-8")
    code, out, err = kvscale("--config", str(file), "--gpu", "H100", "--max-model-len", "1024")
    assert code in {0, 2}
    assert (code == 0) == (err == "")
    assert (code == 0) == (out != "")


BOOT = (
    "(EngineCore pid=1) INFO [core.py:105] Initializing a V1 LLM engine (v0.19.1) with config: "
    "model='Qwen/Qwen3-8B', max_seq_len=40960, tensor_parallel_size=1\n"
    "(EngineCore pid=1) INFO [gpu_model_runner.py:4566] Model loading took 15.27 GiB memory\n"
    "(EngineCore pid=1) INFO [gpu_worker.py:436] Available KV cache memory: 53.54 GiB\n"
)


def test_a_boot_log_calibrates(kvscale: Kvscale, tmp_path: Path) -> None:
    log = tmp_path / "boot.log"
    log.write_text("\x1b[1mnoise\x1b[0m\n" + BOOT)
    settings = ("--gpu", "H100", "--model", "Qwen/Qwen3-8B", "--engine-version", "0.19.1")
    plain = document(kvscale, *settings)["bands"]["kvBlocks"]
    found = document(kvscale, *settings, "--calibrate", str(log))
    # vLLM 0.19.1 printed 389,888 tokens for this log.
    assert abs(found["kvCacheSizeTokens"] / 389_888 - 1) < 0.001
    band = found["bands"]["kvBlocks"]
    assert band["high"] - band["low"] < (plain["high"] - plain["low"]) / 20
    assert any("calibrated" in line for line in found["assumptions"])
    pasted = document(kvscale, *settings, "--calibrate-line", BOOT)
    assert pasted["kvBlocks"] == found["kvBlocks"]


def test_a_boot_log_comes_from_the_standard_input_too(
    kvscale: Kvscale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BOOT.encode() + b"\xff\xfe")))
    found = document(
        kvscale, "--gpu", "H100", "--model", "Qwen/Qwen3-8B", "--calibrate", "-",
        "--engine-version", "0.19.1",
    )  # fmt: skip
    assert any("calibrated" in line for line in found["assumptions"])


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--calibrate", "/no/such/file"), "--calibrate"),
        (("--calibrate", "/dev/null"), "--calibrate: no line tells"),
        (("--calibrate-line", "hello"), "--calibrate-line: no line tells"),
        (("--calibrate", "x", "--calibrate-line", "y"), "exclude each other"),
        (("--calibrate-line", BOOT, "--kv-memory-gib", "3"), "--kv-memory-gib"),
        (("--calibrate-line", BOOT.replace("15.27", "30.5")), "30.50 GiB"),
    ],
)
def test_a_boot_log_that_does_not_help_is_one_line(
    kvscale: Kvscale, more: tuple[str, ...], what: str
) -> None:
    code, out, err = kvscale("--gpu", "H100", "--model", "Qwen/Qwen3-8B", *more)
    assert code != 0
    said = (out + err).strip()
    assert what in said
    assert len(said.splitlines()) == 1
