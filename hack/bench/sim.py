"""How fast simulated engines generate tokens: the recorded requests through a pool of them."""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.example_engine import ON_H100, ON_L4, engine_settings
from bench.figures import Figure, seconds
from kvscale.core.engines.config import EngineConfig
from kvscale.sim.arrivals import Workload, read_azure_trace, superpose
from kvscale.sim.pool import Pool
from kvscale.sim.router import Router

TRACE = Path(__file__).parents[2] / "examples" / "traces" / "azure_conversation_excerpt.csv"
LOOK_SECONDS = 5.0
"""Every engine's gauges are read this often, as the operator's loop does."""
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """So many pods of a kind, and the trace so many times over itself."""

    product: str
    engine: EngineConfig
    pods: int
    copies: int


SCENES = (
    Scene("NVIDIA-L4", ON_L4, pods=16, copies=1),
    Scene("NVIDIA-L4", ON_L4, pods=10, copies=1),
    Scene("NVIDIA-H100-80GB-HBM3", ON_H100, pods=3, copies=1),
    Scene("NVIDIA-H100-80GB-HBM3", ON_H100, pods=30, copies=10),
)


def run() -> list[Figure]:
    """Generated tokens per CPU second; the best of three runs, which give equal tokens."""
    with TRACE.open(encoding="utf-8") as lines:
        trace = read_azure_trace(lines, "Azure conversation 2023, 20 minutes")
    return [_figure(scene, superpose(trace, scene.copies, seed=1)) for scene in SCENES]


def _figure(scene: Scene, workload: Workload) -> Figure:
    runs = [_simulate(scene, workload) for _ in range(REPEATS)]
    tokens, spent, preemptions, answered = min(runs, key=lambda one: one[1])
    return Figure(
        f"{scene.pods} pods on {scene.product}, {len(workload.requests):,} requests",
        f"**{tokens / spent:,.0f} tokens per CPU second**",
        f"{tokens:,} generated tokens in {seconds(spent)}; {answered:,} answered, {preemptions:,} "
        f"preemptions; {seconds(spent / answered)} a request",
    )


def _simulate(scene: Scene, workload: Workload) -> tuple[int, float, int, int]:
    """Tokens of the answers, CPU seconds, preemptions, answers: until the last one is given."""
    settings = engine_settings(scene.product, scene.engine)
    started = time.process_time()
    pool = Pool(settings, Router())
    for number in range(scene.pods):
        pool.add_pod(f"pod-{number}")
    pool.offer(workload.requests)
    tokens, at = 0, 0.0
    while at < workload.seconds or pool.unanswered:
        at += LOOK_SECONDS
        tokens += sum(done.request.output_tokens for done in pool.advance(at))
        for pod in pool.pods:
            pool.gauges(pod)
    spent = time.process_time() - started
    return tokens, spent, pool.totals.preemptions, pool.totals.finished
