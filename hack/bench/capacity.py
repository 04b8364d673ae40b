"""How fast capacities are computed: every model of the catalogue on several devices."""

import time
from collections.abc import Callable
from itertools import product

from bench.example_engine import given
from bench.figures import Figure, seconds
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.catalogue import CONFIGS
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

DEVICES = ("NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200")
TENSOR_PARALLEL = (1, 2, 4, 8)
ROUNDS = 5


def run() -> list[Figure]:
    """Capacities per CPU second, the cache of answers left out."""
    shapes = [given(preset(model)) for model in CONFIGS]
    devices = [given(find_device(name)) for name in DEVICES]
    engines = [EngineConfig(tensor_parallel=size) for size in TENSOR_PARALLEL]
    questions = list(product(shapes, engines, devices))
    compute = engine_capacity.__wrapped__
    answers = [compute(shape, engine, device) for shape, engine, device in questions]
    fitting = sum(isinstance(answer, EngineCapacity) for answer in answers)
    asked = (
        f"{len(shapes)} models x {len(engines)} tensor-parallel sizes x {len(devices)} devices, "
        f"{fitting} of {len(questions)} fit, the others are refused with a reason"
    )
    figures = []
    for what, explained, how in (
        ("capacities, with their traces", True, asked),
        (
            "the same without traces, as a search for a better setting asks",
            False,
            "the same questions",
        ),
    ):
        spent = min(_round(compute, questions, explained=explained) for _ in range(ROUNDS))
        each = spent / len(questions)
        figures.append(
            Figure(
                what,
                f"**{1 / each:,.0f} per CPU second**",
                f"{seconds(each)} each, best of {ROUNDS} rounds; {how}",
            )
        )
    return figures


def _round(
    compute: Callable[..., EngineCapacity | Refusal],
    questions: list[tuple[ModelShape, EngineConfig, Device]],
    *,
    explained: bool,
) -> float:
    started = time.process_time()
    for shape, engine, device in questions:
        compute(shape, engine, device, explained=explained)
    return time.process_time() - started
