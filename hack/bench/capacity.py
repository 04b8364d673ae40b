"""How fast capacities are computed: every model of the catalogue on several devices."""

import time
from itertools import product

from bench.example_engine import given
from bench.figures import Figure, seconds
from kvscale.core.capacity.ceiling import EngineCapacity, Refusal
from kvscale.core.capacity.device_table import find_device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import PRESET_NAMES, preset

DEVICES = ("NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200")
TENSOR_PARALLEL = (1, 2, 4, 8)
AT_LEAST_SECONDS = 3.0


def run() -> list[Figure]:
    """Capacities per CPU second, the cache of answers left out."""
    shapes = [given(preset(name)) for name in PRESET_NAMES]
    devices = [given(find_device(name)) for name in DEVICES]
    engines = [EngineConfig(tensor_parallel=size) for size in TENSOR_PARALLEL]
    questions = list(product(shapes, engines, devices))
    compute = engine_capacity.__wrapped__
    answers: list[EngineCapacity | Refusal] = []
    rounds, started = 0, time.process_time()
    while time.process_time() - started < AT_LEAST_SECONDS:
        answers = [compute(shape, engine, device) for shape, engine, device in questions]
        rounds += 1
    spent = time.process_time() - started
    count = rounds * len(questions)
    fitting = sum(isinstance(answer, EngineCapacity) for answer in answers)
    return [
        Figure(
            "capacities, with their traces",
            f"**{count / spent:,.0f} per CPU second**",
            f"{seconds(spent / count)} each; {len(shapes)} models x {len(engines)} tensor-parallel "
            f"sizes x {len(devices)} devices, {fitting} of {len(questions)} fit, the others are "
            "refused with a reason",
        )
    ]
