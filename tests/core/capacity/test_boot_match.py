"""What a log contradicts is refused, both sides named; what it only leaves open is not."""

from dataclasses import replace
from typing import Any

import pytest

from kvscale.core.capacity.boot_settings import as_started, with_fraction
from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import Calibration, calibrate
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.boot_log import BootLog, parse_boot_log
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from support.boot_rows import Boot, boots, why_no_memory

GIB = 1 << 30
L4 = Device("NVIDIA-L4", round(22.27 * GIB), compute_capability="8.9")
H100 = Device("NVIDIA-H100-80GB-HBM3", round(79.18 * GIB), compute_capability="9.0")
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B"


def shape(name: str = LLAMA) -> ModelShape:
    found = preset(name)
    assert isinstance(found, ModelShape)
    return found


def log(*, kv: str = "3.61", **more: str) -> BootLog:
    """A whole start of Llama-3.1-8B on an L4; `more` replaces what it prints."""
    told = {
        "arguments": "{'model_tag': 'MODEL', 'max_model_len': 8192, 'gpu_memory_utilization': 0.9}",
        "version": "0.31.0", "model": LLAMA, "dtype": "torch.bfloat16", "tp": "1", "pp": "1",
        "quantization": "None", "kv_dtype": "auto", "weights": "14.99",
    } | more  # fmt: skip
    started = (
        f"[core.py:133] Initializing a V1 LLM engine (v{told['version']}) with config: "
        f"model='{told['model']}', dtype={told['dtype']}, max_seq_len=8192, tensor_parallel_size="
        f"{told['tp']}, pipeline_parallel_size={told['pp']}, quantization={told['quantization']}, "
        f"enforce_eager=False, kv_cache_dtype={told['kv_dtype']}"
    )
    lines = [
        f"[utils.py:286] non-default args: {told['arguments']}".replace("MODEL", told["model"]),
        started,
        f"[gpu_model_runner.py:1] Model loading took {told['weights']} GiB memory and 10 seconds",
        f"[gpu_worker.py:436] Available KV cache memory: {kv} GiB",
    ]
    found = parse_boot_log([line for line in lines if "without" not in line])
    assert isinstance(found, BootLog)
    return found


def by(boot: BootLog, engine: EngineConfig | None = None, **more: Any) -> Calibration | Refusal:
    of = more.get("shape", shape())
    asked = as_started(engine or EngineConfig(), boot, of)
    return calibrate(boot, of, asked, more.get("device", L4))


def kv_gib(boot: BootLog, engine: EngineConfig | None = None) -> tuple[float, float, float]:
    asked = as_started(engine or EngineConfig(), boot, shape())
    found = calibrate(boot, shape(), asked, L4)
    assert isinstance(found, Calibration), found
    capacity = calibrated_capacity(shape(), asked, L4, found)
    assert isinstance(capacity, EngineCapacity), capacity
    memory = capacity.kv_memory_bytes
    return memory.low / GIB, memory.expected / GIB, memory.high / GIB


def asked(**more: Any) -> EngineConfig:
    return EngineConfig(**more)


def test_the_fraction_of_the_log_counts_and_another_moves_by_its_share() -> None:
    low, expected, high = kv_gib(log(), asked(memory_utilization_milli=920))
    assert expected == pytest.approx(3.61 + 0.02 * 22.27, abs=0.001)
    assert high - low < 0.02
    assert kv_gib(log())[1] == pytest.approx(3.61, abs=0.001)


@pytest.mark.parametrize(("version", "default"), [("0.19.1", 0.9), ("0.31.0", 0.92)])
def test_a_log_that_prints_what_differs_and_no_fraction_had_the_default(
    version: str, default: float
) -> None:
    boot = log(arguments="{'model_tag': 'MODEL', 'max_model_len': 8192}", version=version)
    found = by(boot, asked(memory_utilization_milli=950))
    assert isinstance(found, Calibration)
    assert found.utilization_milli == round(default * 1000)
    assert f"{default:g}, the default of vLLM {version}" in found.assumptions[0]
    expected = kv_gib(boot, asked(memory_utilization_milli=950))[1]
    assert expected == pytest.approx(3.61 + (0.95 - default) * 22.27, abs=0.001)


def test_without_any_fraction_only_the_start_itself_is_answered() -> None:
    boot = log(arguments="without")
    assert kv_gib(boot)[1] == pytest.approx(3.61, abs=0.001)
    found = by(boot)
    assert isinstance(found, Calibration)
    assert "does not state the memory fraction" in found.assumptions[0]
    refusal = by(boot, asked(memory_utilization_milli=920))
    assert isinstance(refusal, Refusal)
    assert "--calibrate-utilization" in refusal.message
    stated = with_fraction(boot, 900)
    assert isinstance(stated, BootLog)
    expected = kv_gib(stated, asked(memory_utilization_milli=920))[1]
    assert expected == pytest.approx(3.61 + 0.02 * 22.27, abs=0.001)


def test_a_stated_fraction_fills_in_and_does_not_overrule() -> None:
    stated = with_fraction(log(arguments="without"), 900)
    assert isinstance(stated, BootLog)
    assert stated.utilization_milli == 900
    assert with_fraction(log(), 900) == log()
    assert with_fraction(None, 900) is None
    refusal = with_fraction(log(), 850)
    assert isinstance(refusal, Refusal)
    assert refusal.field == "--calibrate-utilization"
    assert "0.9" in refusal.message
    assert "0.85" in refusal.message


def test_a_default_of_an_unknown_version_is_no_fraction() -> None:
    boot = log(arguments="{'model_tag': 'MODEL'}", version="0.1.dev15917+g0a6396b45")
    refusal = by(boot, asked(memory_utilization_milli=920))
    assert isinstance(refusal, Refusal)
    assert "memory fraction" in refusal.message


def test_what_is_left_open_is_as_the_start_had_it() -> None:
    boot = log(arguments="{'gpu_memory_utilization': 0.9, 'max_num_seqs': 64}")
    found = as_started(EngineConfig(), boot, shape())
    assert (found.version, found.max_model_len, found.max_num_seqs) == ("0.31.0", 8192, 64)
    stated = asked(version="0.33", max_model_len=1024, max_num_seqs=8)
    assert as_started(stated, boot, shape()) == stated
    other = by(boot, stated)
    assert isinstance(other, Calibration)
    assert any("0.31.0, asked is 0.33" in line for line in other.assumptions)
    alike = by(boot, asked(version="v0.31"))
    assert isinstance(alike, Calibration)
    assert not any("asked is" in line for line in alike.assumptions)
    sglang = asked(kind=EngineKind.SGLANG)
    assert as_started(sglang, boot, shape()) == sglang


@pytest.mark.parametrize(
    ("more", "engine", "what"),
    [
        ({"kv": "40.61"}, {}, "40.61 GiB for KV"),
        ({"kv": "7.5"}, {}, "14.99 GiB of weights"),
        ({"model": QWEN, "weights": "15.27"}, {}, f"{QWEN}, asked is {LLAMA}"),
        ({"model": "/mnt/models/Qwen3-8B/", "weights": "15.27"}, {}, "Qwen3-8B"),
        ({"model": "acme/qwen9-support", "weights": "15.3"}, {}, f"qwen9-support, asked is {LLAMA}"),
        ({"model": "/m/view", "weights": "17.5"}, {}, "17.50 GiB per device"),
        ({"model": "/m/view", "weights": "8.49"}, {}, "8.49 GiB per device"),
        ({"tp": "2", "weights": "7.5"}, {}, "tensor_parallel_size 2, asked is 1"),
        ({"pp": "2", "weights": "7.5"}, {}, "pipeline_parallel_size 2, asked is 1"),
        ({}, {"tensor_parallel": 2}, "tensor_parallel_size 1, asked is 2"),
        ({"kv_dtype": "fp8_e4m3"}, {}, "kv_cache_dtype fp8_e4m3, asked is auto"),
        ({}, {"kv_cache_dtype": "fp8"}, "kv_cache_dtype auto, asked is fp8"),
        ({"dtype": "torch.float32"}, {}, "dtype float32, asked is bfloat16"),
        ({}, {"kind": EngineKind.SGLANG}, "the log is of vLLM, the engine is SGLang"),
    ],
)  # fmt: skip
def test_a_foreign_log_is_refused_and_both_sides_are_named(
    more: dict[str, str], engine: dict[str, Any], what: str
) -> None:
    refusal = by(log(**more), asked(**engine))
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("CalibrationFailed", "--calibrate")
    assert what in refusal.message


@pytest.mark.parametrize(
    ("more", "engine"),
    [
        ({"model": "meta-llama/Llama-3.1-8B"}, {}),
        ({"model": "unsloth/Meta-Llama-3.1-8B-Instruct"}, {}),
        ({"model": "/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B-Instruct/"
                   "snapshots/0e9e39f249a16976918f6564b8830bc894c89659"}, {}),
        ({"model": "/models/view"}, {}),
        ({"model": "NousResearch/Hermes-3-Llama-3.1-8B"}, {}),
        ({"dtype": "torch.float16"}, {}),
        ({"kv_dtype": "fp8"}, {"kv_cache_dtype": "fp8_e4m3"}),
        ({"kv_dtype": "bfloat16"}, {}),
        ({"quantization": "fp8", "weights": "8.49", "kv": "10.1"}, {}),
        ({"quantization": "bitsandbytes", "weights": "5.4", "kv": "13.1"}, {}),
    ],
)  # fmt: skip
def test_what_the_log_does_not_contradict_is_accepted(
    more: dict[str, str], engine: dict[str, Any]
) -> None:
    found = by(log(**more), asked(**engine))
    assert isinstance(found, Calibration), found


def test_another_name_and_another_format_are_said() -> None:
    found = by(log(model="/m/view", quantization="bitsandbytes", weights="5.4", kv="13.1"))
    assert isinstance(found, Calibration)
    said = " ".join(found.assumptions)
    assert "/m/view; it is taken for" in said
    assert "quantised the model by bitsandbytes" in said


def test_the_architecture_tells_models_of_unknown_names_apart() -> None:
    boot = replace(log(model="/m/view"), architecture="Qwen3ForCausalLM")
    refusal = by(boot)
    assert isinstance(refusal, Refusal)
    assert "Qwen3ForCausalLM" in refusal.message
    assert "LlamaForCausalLM" in refusal.message
    assert isinstance(by(replace(boot, architecture="TransformersForCausalLM")), Calibration)
    assert isinstance(by(replace(boot, architecture="LlamaForCausalLM")), Calibration)


def test_a_log_of_another_device_is_told_by_its_total() -> None:
    boot = replace(log(), total=by_total(79.19))
    refusal = by(boot)
    assert isinstance(refusal, Refusal)
    assert "79.19" in refusal.message
    assert "22.27" in refusal.message
    assert isinstance(by(replace(boot, total=by_total(22.03))), Calibration)


def by_total(gib: float) -> Any:
    found = parse_boot_log(
        [f"Free memory on device (20/{gib} GiB)", "Available KV cache memory: 1 GiB"]
    )
    assert isinstance(found, BootLog)
    return found.total


SGLANG = """\
server_args=ServerArgs(model_path='Qwen/Qwen3-8B', dtype='auto', quantization=None, \
kv_cache_dtype='auto', mem_fraction_static=0.85, max_total_tokens={tokens}, tp_size=1)
Load weight begin. avail mem=78.43 GB
Load weight end. elapsed=5 s, type={kind}, avail mem=63.1 GB, mem usage={weights} GB.
KV Cache is allocated. dtype: torch.bfloat16, #tokens: 373000, K size: 25.63 GB, V size: 25.63 GB
"""


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({}, ""),
        ({"tokens": "20480"}, "--max-total-tokens"),
        ({"kind": "LlamaForCausalLM", "name": "/m/view"}, "LlamaForCausalLM"),
        ({"weights": "30.5"}, "30.50 GiB per device"),
    ],
)
def test_a_log_of_sglang_is_compared_alike(more: dict[str, str], what: str) -> None:
    told = {"tokens": "None", "kind": "Qwen3ForCausalLM", "weights": "15.33"} | more
    text = SGLANG.format(**told).replace(QWEN, more.get("name", QWEN))
    boot = parse_boot_log(text.splitlines())
    assert isinstance(boot, BootLog)
    engine = asked(kind=EngineKind.SGLANG, version="0.5.9", max_model_len=8192)
    found = calibrate(boot, shape(QWEN), engine, H100)
    if not what:
        assert isinstance(found, Calibration), found
        assert found.utilization_milli == 850
        return
    assert isinstance(found, Refusal)
    assert what in found.message


ROWS = [boot for boot in boots() if not why_no_memory(boot)]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_no_real_start_is_refused_and_each_comes_back_from_its_own_log(row: Boot) -> None:
    fraction, kv, weights = (
        row.number(name) for name in ("mem_fraction", "reported_kv_gib", "reported_weight_gib")
    )
    model, device, engine = row.shape, row.device, row.engine
    assert model is not None
    assert device is not None
    printed = {
        "model": row.row["model"], "gpu_memory_utilization": fraction,
        "tensor_parallel_size": engine.tensor_parallel, "kv_cache_dtype": engine.kv_cache_dtype,
        "max_num_seqs": engine.max_num_seqs, "enforce_eager": engine.enforce_eager,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
    }  # fmt: skip
    loaded = f"Model loading took {weights} GiB" if weights else ""
    memory = f"Available KV cache memory: {kv} GiB"
    boot = parse_boot_log([f"non-default args: {printed}", loaded, memory])
    assert isinstance(boot, BootLog)
    short = replace(engine, max_model_len=16, memory_utilization_milli=None)
    found = calibrate(boot, model, short, device)
    assert isinstance(found, Calibration), found
    assert found.utilization_milli == round((fraction or 0) * 1000)
    capacity = calibrated_capacity(model, short, device, found)
    assert isinstance(capacity, EngineCapacity), capacity
    assert capacity.kv_memory_bytes.expected / GIB == pytest.approx(kv, abs=0.001)
