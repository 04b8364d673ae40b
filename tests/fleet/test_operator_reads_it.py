"""What the operator's own adapter makes of the fleet's pages."""

from dataclasses import replace

import pytest

from kvscale.adapters.metrics_text import parse
from kvscale.core.engines.sample import EngineSample
from kvscale.core.engines.vllm.metrics import read_pod
from kvscale.core.values import Unknown
from kvscale.fleet.fleet import FleetPod
from kvscale.fleet.metrics_text import Exposition, Names, metrics_text
from kvscale.fleet.server import Fault, FleetServer
from kvscale.sim.request import Gauges
from kvscale.sim.settings import EngineSettings

A = FleetPod("serving", "llama-a", "uid-a", "llama", ready=True)

STATE = Gauges(
    running=3,
    waiting=2,
    used_blocks=25,
    usable_blocks=100,
    preemptions_total=7,
    prompt_tokens_total=1234,
    generation_tokens_total=56,
    finished_total=9,
)


def sample(settings: EngineSettings, names: Names, tokens: int | None) -> EngineSample:
    exposition = Exposition("org/model", names, kv_cache_size_tokens=tokens)
    series = parse(metrics_text([STATE], settings, exposition, 0.0).encode())
    assert not isinstance(series, Unknown)
    engines = read_pod(series, "org/model")
    assert not isinstance(engines, Unknown)
    (engine,) = engines
    return engine


def test_a_current_page_is_a_whole_sample(settings) -> None:
    assert sample(settings, Names.CURRENT, 400) == EngineSample(
        engine="0",
        kv_usage=0.25,
        running=3,
        waiting=2,
        preemptions_total=7,
        prompt_tokens_total=1234,
        generation_tokens_total=56,
        prefix_hits_total=0,
        prefix_queries_total=0,
        kv_blocks=101,
        block_tokens=4,
        kv_cache_size_tokens=400,
    )


@pytest.mark.parametrize("names", [Names.EARLY_V1, Names.V0])
def test_pages_of_earlier_versions_say_the_same_of_load_and_capacity(settings, names) -> None:
    current = sample(settings, Names.CURRENT, None)
    earlier = sample(settings, names, None)
    unlike = {"prefix_hits_total": None, "prefix_queries_total": None}
    assert replace(earlier, **unlike) == replace(current, **unlike)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.MALFORMED, "MalformedMetrics"),
        (Fault.EMPTY, "NoEngineSeries"),
        (Fault.NO_SERIES, "NoEngineSeries"),
    ],
)
def test_a_faulty_page_is_unknown_and_never_zero(fleet, clock, fault, reason) -> None:
    fleet.set_pods([A])
    body = FleetServer(fleet, clock)._body(A, (A.namespace, A.name), fault)
    series = parse(body.encode())
    answer = series if isinstance(series, Unknown) else read_pod(series)
    assert isinstance(answer, Unknown)
    assert answer.reason == reason
