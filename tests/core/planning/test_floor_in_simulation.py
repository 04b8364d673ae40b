"""One engine at the rate that the floor gives it: a simulated engine has to agree."""

import random
from dataclasses import replace
from statistics import fmean

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.floor import Floor, floor
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.sim.engine import Engine
from kvscale.sim.request import Finished, Request
from kvscale.sim.settings import EngineSettings

SECONDS = 1800
WARM_UP = 300
TRAFFIC = Traffic(
    mean_per_minute=60,
    prompt_tokens=LengthPercentiles(mean=900, p50=600, p90=2100, p95=3300, p99=5800),
    output_tokens=LengthPercentiles(mean=220, p50=160, p90=480, p95=640, p99=1400),
)


@pytest.mark.parametrize(
    ("product", "gib", "seqs"), [("NVIDIA-L4", 4, 64), ("NVIDIA-H100-80GB-HBM3", 16, 256)]
)
def test_a_simulated_engine_holds_what_the_plan_says(product: str, gib: int, seqs: int) -> None:
    shape, device = preset("meta-llama/Llama-3.1-8B"), find_device(product)
    assert isinstance(shape, ModelShape)
    config = EngineConfig(
        version="0.32",
        max_model_len=8192,
        max_num_seqs=seqs,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=gib << 30,
    )
    capacity, step = engine_capacity(shape, config, device), step_time(shape, config, device)
    assert isinstance(capacity, EngineCapacity)
    assert isinstance(step, StepTime)
    planned = floor(
        shape,
        config,
        device,
        capacity,
        traffic=TRAFFIC,
        percentile=95,
        target_occupancy_percent=85,
        engines_per_replica=1,
    )
    assert isinstance(planned, Floor)

    settings = replace(EngineSettings.of(capacity, step), kv_blocks=capacity.kv_blocks.low)
    engine, draw = Engine(settings), random.Random(11)
    running, occupancy, finished = [], [], list[Finished]()
    at, looked_at, number = 0.0, float(WARM_UP), 0
    while at < SECONDS:
        at += draw.expovariate(planned.requests_per_minute_milli / 60_000)
        while looked_at < min(at, SECONDS):
            finished += engine.advance(looked_at)
            gauges = engine.gauges()
            running.append(gauges.running)
            occupancy.append(gauges.used_blocks / gauges.usable_blocks)
            looked_at += 5
        prompt = max(1, round(planned.profile.prompt.quantile(draw.random())))
        output = max(1, round(planned.profile.output.quantile(draw.random())))
        prompt = min(prompt, capacity.max_model_len - 1)
        output = min(output, capacity.max_model_len - prompt)
        finished += engine.advance(at)
        number += 1
        engine.submit(Request(number, at, prompt, output), at)

    stayed = fmean(one.finished_at - one.request.arrived_at for one in finished)
    # The plan takes no credit for arithmetic that hides behind memory reads: it errs on the slow
    # side, by what prefill takes.
    assert 0.95 * stayed <= planned.residence_seconds <= 1.5 * stayed
    assert 0.6 <= fmean(running) / (planned.planned_batch_milli / 1000) <= 1.05
    assert engine.gauges().preemptions_total == 0
    assert fmean(occupancy) < 0.85
