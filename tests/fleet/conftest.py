"""A small fleet on a clock that moves when it is told to."""

from dataclasses import dataclass

import pytest

from kvscale.core.capacity.roofline import StepTime
from kvscale.fleet.fleet import Fleet, FleetPool
from kvscale.fleet.metrics_text import Exposition
from kvscale.sim.pool import Pool
from kvscale.sim.request import Request
from kvscale.sim.router import Router
from kvscale.sim.settings import EngineSettings

START = 1_700_000_000.0

SETTINGS = EngineSettings(
    kv_blocks=101,
    block_tokens=4,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    max_model_len=100,
    step=StepTime(
        fixed=1.0, dense=0.0, sparse=(), kv_token=0.0, compute_token=0.0, compute_pair=0.0
    ),
)


@dataclass
class ManualClock:
    at: float = START

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def settings() -> EngineSettings:
    return SETTINGS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def fleet(clock: ManualClock) -> Fleet:
    """Two pools; a request every second of 4 tokens in and 20 out goes to `llama`."""
    pools = {
        name: FleetPool(Pool(SETTINGS, Router()), Exposition(f"org/{name}"))
        for name in ("llama", "qwen")
    }
    pools["llama"].pool.offer(Request(i, float(i), 4, 20) for i in range(100))
    return Fleet(pools, clock)
