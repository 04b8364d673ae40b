"""Overflow probability against a simulation that knows nothing of its arithmetic.

Requests arrive at a pool by a Poisson process, each goes to an engine at random, holds its prompt
while that is computed, then a token more with every step, and is gone. Engines are looked at in
even intervals: the share of the looks at which their requests hold more than they have is the
frequency that the plan predicts.
"""

import csv
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.planning.floor import Floor, floor
from kvscale.core.planning.overflow_steps import OverflowCount
from kvscale.core.spec import PlanningMode
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.fit import Fit, fit
from kvscale.core.traffic.requests import Requests, measured
from kvscale.core.values import Band

TRACE = Path(__file__).parents[2] / "data" / "traces" / "mooncake_conversation.csv"
MAX_MODEL_LEN = 131_072
Population = tuple[tuple[int, int], ...]

SHAPE = ModelShape(
    name="an-8b-model",
    architecture="LlamaForCausalLM",
    hidden_size=4096,
    vocabulary_size=128_256,
    attention_heads=32,
    layer_groups=(LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),),
    weight_groups=(WeightGroup("all", 8_030_000_000, 16_000),),
    max_position_embeddings=MAX_MODEL_LEN,
)
ENGINE = EngineConfig(max_model_len=MAX_MODEL_LEN, max_num_seqs=512, max_num_batched_tokens=8192)
H100 = Device(
    "NVIDIA-H100-80GB-HBM3",
    85_017_755_443,
    bandwidth_bytes_per_second=3_350_000_000_000,
    flops_per_second=989_000_000_000_000,
)


def engine_of(usable: int, groups: tuple[CacheGroup, ...] = ()) -> EngineCapacity:
    return EngineCapacity(
        block_tokens=16,
        bytes_per_block=2_097_152,
        weight_bytes_per_device=16_060_000_000,
        kv_memory_bytes=Band.point((usable + 1) * 2_097_152),
        kv_blocks=Band.point(usable + 1),
        reserved_blocks=1,
        kv_cache_size_tokens=Band.point(usable * 16),
        max_concurrency_milli=Band.point(1000),
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=512,
        max_num_batched_tokens=8192,
        devices=1,
        groups=groups,
    )


WINDOWED = (
    CacheGroup(LayerKind.FULL_ATTENTION, 4, 64, 2_097_152),
    CacheGroup(
        LayerKind.SLIDING_WINDOW, 28, 16, 2_097_152, admitted_tokens=9215, resident_tokens=1023
    ),
)


def exponential(source: random.Random) -> tuple[int, int]:
    return 1 + int(source.expovariate(1 / 800)), 1 + int(source.expovariate(1 / 300))


def lognormal(source: random.Random) -> tuple[int, int]:
    prompt = min(60_000, 1 + int(source.lognormvariate(math.log(600), 1.0)))
    return prompt, min(20_000, 1 + int(source.lognormvariate(math.log(160), 0.9)))


def chats_and_documents(source: random.Random) -> tuple[int, int]:
    if source.random() < 0.05:
        return source.randint(10_000, 14_000), source.randint(300, 900)
    return source.randint(50, 400), source.randint(50, 300)


def many(draw: Callable[[random.Random], tuple[int, int]]) -> Population:
    """A finite population: the plan and the simulation know the very same one.

    A tail magnifies an error of one percent in the mean to one of twenty.
    """
    source = random.Random(1)
    return tuple(draw(source) for _ in range(20_000))


def conversations() -> Population:
    with TRACE.open() as lines:
        rows = csv.DictReader(lines)
        return tuple((int(row["input_length"]), int(row["output_length"])) for row in rows)


PROMPT = LengthPercentiles(mean=900, p50=600, p90=2100, p95=3300, p99=7800)
OUTPUT = LengthPercentiles(mean=220, p50=160, p90=480, p95=640, p99=1400)


def of_percentiles() -> Population:
    """Even steps through both declared distributions, put together without correlation."""
    columns = []
    for declared, stride in ((PROMPT, 1), (OUTPUT, 12_361)):
        found = fit(declared, "lengths")
        assert isinstance(found, Fit)
        shares = ((i * stride % 20_000 + 0.5) / 20_000 for i in range(20_000))
        columns.append([round(found.lengths.quantile(share)) for share in shares])
    return tuple(zip(*columns, strict=True))


@dataclass(frozen=True)
class Case:
    population: Population
    capacity: EngineCapacity
    by_percentiles: bool = False


CASES: dict[str, Callable[[], Case]] = {
    "constant": lambda: Case(((1000, 400),), engine_of(900)),
    "exponential": lambda: Case(many(exponential), engine_of(1500)),
    "lognormal": lambda: Case(many(lognormal), engine_of(1200)),
    "chats and documents": lambda: Case(many(chats_and_documents), engine_of(3000)),
    "conversations": lambda: Case(conversations(), engine_of(12_000)),
    "a sliding window": lambda: Case(many(lognormal), engine_of(900, WINDOWED)),
    "declared percentiles": lambda: Case(of_percentiles(), engine_of(1500), by_percentiles=True),
}


def planned(case: Case, accepted: int, rates: tuple[int | None, int | None]) -> Floor:
    traffic = Traffic(mean_per_minute=rates[0], peak_per_minute=rates[1])
    if case.by_percentiles:
        traffic = replace(traffic, prompt_tokens=PROMPT, output_tokens=OUTPUT)
    else:
        traffic = replace(traffic, requests=trace_of(case.population))
    result = floor(
        SHAPE,
        ENGINE,
        H100,
        case.capacity,
        traffic=traffic,
        percentile=95,
        target_occupancy_percent=85,
        engines_per_replica=1,
        mode=PlanningMode.OVERFLOW_PROBABILITY,
        overflow_per_million=accepted,
    )
    assert isinstance(result, Floor), result
    return result


@cache
def step_model() -> StepTime:
    model = step_time(SHAPE, ENGINE, H100)
    assert isinstance(model, StepTime)
    return model


@cache
def trace_of(population: Population) -> Requests | None:
    return measured(population)


@cache
def means(population: Population) -> tuple[float, float, float, float]:
    """Mean output, tokens of a resident, seconds of a prompt alone and beside others."""
    model, count = step_model(), len(population)
    outputs = math.fsum(o for _, o in population) / count
    tokens = math.fsum(o * (p + o / 2) for p, o in population) / count / outputs
    prefill = math.fsum(model.prefill_seconds(p, 8192) for p, _ in population) / count
    work = math.fsum(model.compute_seconds(p, p * (p + 1) // 2) for p, _ in population) / count
    return outputs, tokens, prefill, work


def step_seconds(per_second: float, population: Population) -> tuple[float, float]:
    """Seconds of a step at the batch that goes with the rate, by iteration, and the batch."""
    model = step_model()
    outputs, tokens, prefill, work = means(population)
    batch = 1.0
    for _ in range(300):
        step = model.dense + model.fixed + model.kv_token * batch * tokens
        step /= 1 - per_second * work
        batch = per_second * (prefill + outputs * step)
    return step, batch


@cache
def table_of(capacity: EngineCapacity) -> list[int]:
    return [capacity.resident_blocks(tokens) for tokens in range(MAX_MODEL_LEN + 1)]


def frequency(
    case: Case, engines: int, per_second: float, looks: int, seed: int
) -> tuple[float, float]:
    """The share of looks at which an engine's requests hold too much, and how many there are."""
    model = step_model()
    step, batch = step_seconds(per_second / engines, case.population)
    interval = batch * engines / per_second  # the mean residence
    blocks = table_of(case.capacity)
    prefill = cache(lambda tokens: model.prefill_seconds(tokens, 8192))
    source = random.Random(seed)
    rounds = -(-looks // engines)
    warm = 12 * interval
    held = [[0] * rounds for _ in range(engines)]
    count = 0
    at, end = 0.0, warm + rounds * interval
    while True:
        at += source.expovariate(per_second)
        if at >= end:
            break
        mine = held[int(source.random() * engines)]
        prompt, output = case.population[int(source.random() * len(case.population))]
        ready = at + prefill(prompt)
        gone = ready + output * step
        look = max(0, math.ceil((at - warm) / interval))
        while look < rounds and (now := warm + look * interval) < gone:
            grown = 0 if now < ready else 1 + int((now - ready) / step)
            mine[look] += blocks[prompt + min(grown, output)]
            count += 1
            look += 1
    usable = case.capacity.usable_blocks.low
    over = sum(sum(total > usable for total in row) for row in held)
    return over / rounds / engines, count / rounds / engines


def pair(case: Case, accepted: int) -> Sequence[tuple[int, OverflowCount]]:
    """A small and a large pool, with a rate that needs about all of their engines."""
    one = planned(case, accepted, (1, None)).requests_per_minute_milli / 1000
    rates = int(3 * 0.98 * one), int(50 * 0.999 * one)
    found = planned(case, accepted, rates).overflow
    assert found is not None
    assert found.at_mean is not None
    assert found.at_peak is not None
    assert found.at_mean.replicas in {2, 3, 4}
    assert found.at_peak.replicas in range(47, 54)
    return list(zip(rates, (found.at_mean, found.at_peak), strict=True))


def agrees(case: Case, engines: int, rate: int, predicted: float, looks: int) -> None:
    seen, _ = frequency(case, engines, rate / 60, looks, seed=engines * rate)
    assert 0.5 * predicted <= seen <= 1.5 * predicted, (engines, predicted, seen)


@pytest.mark.parametrize("name", CASES)
def test_an_engine_overflows_as_often_as_the_plan_says(name: str) -> None:
    case = CASES[name]()
    small = True
    for accepted, looks in ((100_000, 6000), (10_000, 15_000), (1000, 80_000)):
        for rate, count in pair(case, accepted):
            assert count.probability <= accepted / 1e6 < count.probability_of_one_less
            # The rarest is looked for in the small or in the large pool, by turns.
            if accepted > 1000 or (count.replicas < 10) == small:
                agrees(case, count.replicas, rate, count.probability, looks)
            if accepted == 100_000 and count.replicas < 10:
                agrees(case, count.replicas - 1, rate, count.probability_of_one_less, 3000)


def test_many_residents_are_no_worse() -> None:
    case = Case(many(lognormal), engine_of(14_000))
    rate, count = pair(case, 10_000)[1]
    assert count.residents > 90
    seen, residents = frequency(case, count.replicas, rate / 60, 8000, seed=7)
    assert 0.5 * count.probability <= seen <= 1.5 * count.probability
    assert residents == pytest.approx(count.residents, rel=0.02)
