"""The engine that the benchmarks simulate: Llama 3.1 8B, on L4 as the examples start it."""

from typing import TypeVar

from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.refusal import Refusal
from kvscale.sim.settings import EngineSettings

T = TypeVar("T")

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ON_L4 = EngineConfig(max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=2048)
ON_H100 = EngineConfig(max_model_len=16_384, max_num_seqs=256, max_num_batched_tokens=8192)


def engine_settings(product: str, engine: EngineConfig) -> EngineSettings:
    """The simulated engine of that set-up, at the expected number of blocks."""
    shape, device = given(preset(MODEL)), given(find_device(product))
    capacity = given(engine_capacity(shape, engine, device))
    return EngineSettings.of(capacity, given(step_time(shape, engine, device)))


def given(found: T | Refusal) -> T:
    """What was found.

    Raises:
        ValueError: nothing was; the message says why.
    """
    if isinstance(found, Refusal):
        raise ValueError(found.message)  # noqa: TRY004 - a refusal, not a caller's type
    return found
