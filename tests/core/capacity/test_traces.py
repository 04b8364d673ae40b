"""Whoever takes the printed inputs of a capacity finds the printed values, for every engine."""

from dataclasses import replace

import pytest
from tests.support.engine_cases import starting
from tests.support.formulas import trace_faults
from tests.support.statements import OF_CAPACITY

from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import Calibration, calibrate
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.boot_log import BootLog, parse_boot_log
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.catalogue import CONFIGS
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.trace import find


@pytest.mark.parametrize("kind", EngineKind)
@pytest.mark.parametrize("model", CONFIGS)
def test_every_step_follows_from_its_inputs(model, kind):
    for case, capacity in starting(model, kind, 25):
        assert not trace_faults(capacity.trace, OF_CAPACITY), case[1:]


START = """
Model loading took 15.1 GiB memory
Available KV cache memory: {kv} GiB
Desired GPU memory utilization is (0.8, 63.34 GiB)
"""
SGLANG_START = """
server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.85, tp_size=1)
Load weight begin. avail mem=78.43 GB
KV Cache is allocated. #tokens: 373000, K size: 25.63 GB, V size: 25.63 GB
"""


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B"])
@pytest.mark.parametrize("version", ["0.19.1", "0.26.0", "0.33.0"])
@pytest.mark.parametrize("fraction", [None, 450, 800, 951])
@pytest.mark.parametrize("batch", [512, 2048, 16_384])
def test_so_it_does_from_a_start_of_vllm(model, version, fraction, batch):
    boot = parse_boot_log(START.format(kv=42.37).splitlines())
    assert isinstance(boot, BootLog)
    stated = replace(boot, version="0.19.1", arguments={"max_num_batched_tokens": "2048"})
    engine = EngineConfig(
        version=version, memory_utilization_milli=fraction, max_num_batched_tokens=batch,
        max_model_len=8192, max_num_seqs=256,
    )  # fmt: skip
    found = calibrated(model, engine, stated)
    assert not trace_faults(found.trace, OF_CAPACITY)
    assert band(found) == (found.kv_blocks.low, found.kv_blocks.high)


@pytest.mark.parametrize("fraction", [None, 600, 850, 933])
def test_so_it_does_from_a_start_of_sglang(fraction):
    boot = parse_boot_log(SGLANG_START.splitlines())
    assert isinstance(boot, BootLog)
    engine = EngineConfig(
        kind=EngineKind.SGLANG, version="0.5.9", memory_utilization_milli=fraction,
        max_model_len=8192,
    )  # fmt: skip
    found = calibrated("Qwen/Qwen3-8B", engine, boot)
    assert not trace_faults(found.trace, OF_CAPACITY)
    assert band(found) == (found.kv_blocks.low, found.kv_blocks.high)


def calibrated(model, engine, boot):
    shape, device = preset(model), find_device("H100")
    assert isinstance(shape, ModelShape)
    assert isinstance(device, Device)
    by = calibrate(boot, shape, engine, device)
    assert isinstance(by, Calibration), by
    found = calibrated_capacity(shape, engine, device, by)
    assert isinstance(found, EngineCapacity), found
    return found


def band(found):
    step = find(found.trace, "kvBlocks")
    inputs = dict(step.inputs)
    return inputs["low"], inputs["high"]
