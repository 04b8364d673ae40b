"""Calibration: one start of an engine, applied to its other settings."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import Calibration, calibrate
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.boot_log import BootLog, boot_of_labels, parse_boot_log
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.trace import find

GIB = 1 << 30
H100 = Device("NVIDIA-H100-80GB-HBM3", round(79.18 * GIB), compute_capability="9.0")


def model(name: str = "meta-llama/Llama-3.3-70B-Instruct") -> ModelShape:
    shape = preset(name)
    assert isinstance(shape, ModelShape)
    return shape


def llama(**more: Any) -> EngineConfig:
    stated: dict[str, Any] = {
        "version": "0.19.1", "tensor_parallel": 8, "max_model_len": 16384, "enforce_eager": True,
        "max_num_batched_tokens": 8192, "max_num_seqs": 256,
    }  # fmt: skip
    return EngineConfig(**(stated | more))


def log(kv: float, fraction: float, weights: float = 16.46) -> BootLog:
    found = parse_boot_log(
        [
            f"Model loading took {weights} GiB memory",
            f"Available KV cache memory: {kv} GiB",
            f"Desired GPU memory utilization is ({fraction}, {79.18 * fraction:.2f} GiB)",
        ]
    )
    assert isinstance(found, BootLog)
    return found


def calibration(boot: BootLog, engine: EngineConfig, **more: Any) -> Calibration:
    found = calibrate(boot, more.get("shape", model()), engine, more.get("device", H100))
    assert isinstance(found, Calibration), found
    return found


def capacity(engine: EngineConfig, by: Calibration) -> EngineCapacity:
    found = calibrated_capacity(model(), engine, H100, by)
    assert isinstance(found, EngineCapacity), found
    return found


# Starts of one build on 8 x H100, memory fraction to KV GiB (vllm_hybrid 8fa80a9, May 2026).
STARTS = {0.25: 1.12, 0.4: 13.0, 0.75: 40.71}


@pytest.mark.parametrize("known", STARTS)
def test_one_start_gives_the_others_within_a_percent(known: float) -> None:
    engine = llama(memory_utilization_milli=round(known * 1000))
    by = calibration(log(STARTS[known], known), engine)
    for other, kv in STARTS.items():
        found = capacity(replace(engine, memory_utilization_milli=round(other * 1000)), by)
        band = found.kv_memory_bytes
        assert band.expected / GIB == pytest.approx(kv, rel=0.01)
        assert (band.low - round(0.005 * GIB)) / GIB <= kv <= (band.high + round(0.005 * GIB)) / GIB
        assert band.high - band.low < 0.05 * GIB


def test_the_start_itself_comes_back_with_the_rounding_of_its_log() -> None:
    engine = llama(memory_utilization_milli=400)
    found = capacity(engine, calibration(log(13.0, 0.4), engine))
    assert found.kv_memory_bytes.expected == 13 * GIB
    assert found.kv_memory_bytes.high - found.kv_memory_bytes.low == 2 * round(0.005 * GIB)
    assert found.kv_blocks.expected == 13 * GIB // found.bytes_per_block
    assert found.kv_cache_size_tokens.expected == pytest.approx(340_784, abs=400)
    plain = engine_capacity(model(), engine, H100)
    assert isinstance(plain, EngineCapacity)
    was = plain.kv_memory_bytes
    assert found.kv_memory_bytes.high - found.kv_memory_bytes.low < (was.high - was.low) / 10


def test_what_was_calibrated_is_said_and_traced() -> None:
    engine = llama(memory_utilization_milli=400)
    found = capacity(engine, calibration(log(13.0, 0.4), engine))
    assert any("calibrated by a start at a memory fraction of 0.4" in a for a in found.assumptions)
    assert any("same build" in line for line in found.assumptions)
    step = find(found.trace, "calibratedKvMemoryBytes")
    assert step is not None
    assert step.value == found.kv_memory_bytes.expected


def test_a_total_that_is_logged_wins_over_the_table() -> None:
    boot = replace(log(13.0, 0.4), total=None)
    logged = replace(boot, total=parse_total("(78.66/79.25 GiB)"))
    engine = llama(memory_utilization_milli=400)
    more = replace(engine, memory_utilization_milli=800)
    by_table = capacity(more, calibration(boot, engine)).kv_memory_bytes.expected
    by_log = capacity(more, calibration(logged, engine)).kv_memory_bytes.expected
    assert by_log - by_table == pytest.approx(0.4 * (79.25 - 79.18) * GIB, abs=2)


def parse_total(text: str) -> Any:
    found = parse_boot_log([f"Free memory on device {text}", "Available KV cache memory: 1 GiB"])
    assert isinstance(found, BootLog)
    return found.total


def test_another_batch_moves_the_number_and_widens_the_band() -> None:
    engine = llama(memory_utilization_milli=400)
    by = calibration(log(13.0, 0.4), engine)
    larger = capacity(replace(engine, max_num_batched_tokens=65_536), by).kv_memory_bytes
    same = capacity(engine, by).kv_memory_bytes
    assert larger.expected < same.expected
    assert larger.high - larger.low > same.high - same.low


def test_the_settings_that_the_log_prints_are_those_of_the_start() -> None:
    boot = replace(log(13.0, 0.4), arguments={"max_num_batched_tokens": "2048"}, version="0.18.0")
    by = calibration(boot, llama())
    assert (by.booted.max_num_batched_tokens, by.booted.version) == (2048, "0.18.0")
    assert by.booted.max_num_seqs == 256
    complete = {"max_num_batched_tokens": "2048", "tensor_parallel_size": "8"}
    fresh = calibration(replace(boot, complete_arguments=True, arguments=complete), llama())
    assert (fresh.booted.max_num_seqs, fresh.booted.enforce_eager) == (None, False)


def test_given_bytes_leave_nothing_to_calibrate() -> None:
    engine = llama(memory_utilization_milli=400)
    by = calibration(log(13.0, 0.4), engine)
    found = capacity(replace(engine, kv_cache_memory_bytes=2 * GIB), by)
    assert found.kv_memory_bytes.is_point
    assert found.kv_memory_bytes.expected == 2 * GIB


def test_a_failed_start_calibrates_too_and_a_fraction_below_it_is_refused() -> None:
    engine = llama(memory_utilization_milli=200)
    by = calibration(log(-2.84, 0.2), engine)
    assert capacity(llama(memory_utilization_milli=400), by).kv_memory_bytes.expected == (
        pytest.approx(13.0 * GIB, rel=0.01)
    )
    refusal = calibrated_capacity(model(), engine, H100, by)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("ModelDoesNotFit", "--gpu-memory-utilization")


def test_the_blocks_of_a_running_engine_are_enough() -> None:
    engine = llama(memory_utilization_milli=400)
    blocks = 21_299
    boot = boot_of_labels({"num_gpu_blocks": str(blocks), "gpu_memory_utilization": "0.4"})
    assert isinstance(boot, BootLog)
    found = capacity(engine, calibration(boot, engine))
    assert found.kv_blocks.expected == found.kv_blocks.low == found.kv_blocks.high == blocks


def test_blocks_sharpen_what_the_log_rounds() -> None:
    engine = llama(memory_utilization_milli=400)
    rounded = calibration(log(13.0, 0.4), engine).kv
    sharp = calibration(replace(log(13.0, 0.4), blocks=21_299), engine).kv
    assert sharp.high - sharp.low < (rounded.high - rounded.low) / 10
    assert rounded.low <= sharp.low <= sharp.high <= rounded.high
    # Blocks that contradict the log are of another rank: the log's own memory stays.
    assert calibration(replace(log(13.0, 0.4), blocks=5), engine).kv == rounded


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"kv_fixed": True}, "--kv-cache-memory-bytes"),
        ({"kind": EngineKind.SGLANG}, "SGLang"),
        ({"arguments": {"tensor_parallel_size": "4"}}, "tensor_parallel_size 4"),
        ({"arguments": {"pipeline_parallel_size": "2"}}, "pipeline_parallel_size 2"),
        ({"arguments": {"num_gpu_blocks_override": "9"}, "kv": None, "blocks": 9}, "by hand"),
    ],
)
def test_a_log_that_does_not_fit_is_refused_with_the_reason(
    more: dict[str, Any], what: str
) -> None:
    refusal = calibrate(replace(log(13.0, 0.4), **more), model(), llama(), H100)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("CalibrationFailed", "--calibrate")
    assert what in refusal.message


def test_a_log_of_another_model_is_told_by_its_weights() -> None:
    refusal = calibrate(log(13.0, 0.4, weights=33.88), model(), llama(), H100)
    assert isinstance(refusal, Refusal)
    assert "33.88" in refusal.message


@given(
    st.floats(0.5, 30.0),
    st.integers(250, 600),
    st.integers(250, 1000),
)
def test_the_same_bytes_are_taken_at_every_fraction(kv: float, known: int, asked: int) -> None:
    assume(kv + 16.6 < 79.18 * known / 1000)
    engine = llama(memory_utilization_milli=known, max_model_len=16)
    by = calibration(log(round(kv, 2), known / 1000), engine)
    found = calibrated_capacity(model(), replace(engine, memory_utilization_milli=asked), H100, by)
    if isinstance(found, Refusal):
        assert round(kv, 2) * GIB + H100.memory_bytes * (asked - known) / 1000 < 0.1 * GIB
        return
    taken = H100.memory_bytes * asked / 1000 - found.kv_memory_bytes.expected
    assert taken == pytest.approx(by.taken, abs=4)
    band = found.kv_memory_bytes
    assert band.low <= band.expected <= band.high


def test_a_start_of_sglang_calibrates_its_fraction_of_what_was_free() -> None:
    boot = parse_boot_log(
        [
            "server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.85, tp_size=1)",
            "Load weight begin. avail mem=78.43 GB",
            "KV Cache is allocated. #tokens: 373000, K size: 25.63 GB, V size: 25.63 GB",
        ]
    )
    assert isinstance(boot, BootLog)
    shape = model("Qwen/Qwen3-8B")
    engine = EngineConfig(
        kind=EngineKind.SGLANG, version="0.5.9", memory_utilization_milli=900, max_model_len=8192
    )
    by = calibration(boot, engine, shape=shape)
    found = calibrated_capacity(shape, engine, H100, by)
    assert isinstance(found, EngineCapacity), found
    expected = 2 * 25.63 + 0.05 * 78.43
    assert found.kv_memory_bytes.expected / GIB == pytest.approx(expected, abs=0.001)
