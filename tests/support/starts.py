"""Engines that start, or do not, from the configs under tests/data."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

DATA = Path(__file__).parents[1] / "data"
GIB = 1 << 30


@cache
def shape(name: str) -> ModelShape:
    """The model of that folder."""
    folder = next(
        found
        for found in (DATA / "hf_configs" / name, DATA / "recalled_configs" / name)
        if found.exists()
    )
    beside = folder / "hf_quant_config.json"
    found = read_shape(
        json.loads((folder / "config.json").read_text()),
        name,
        json.loads(beside.read_text()) if beside.exists() else None,
    )
    assert isinstance(found, ModelShape), found
    return found


def started(name: str, capability: str = "9.0", **more: Any) -> EngineCapacity | Refusal:
    """What an engine of 0.32 with that model, 24 GiB for KV and these settings answers."""
    engine = EngineConfig(**({"version": "0.32.0", "max_model_len": 4000} | more))
    device = Device("huge", 8 << 40, compute_capability=capability)
    return engine_capacity(shape(name), engine, device, 24 * GIB)


def starts(name: str, capability: str = "9.0", **more: Any) -> EngineCapacity:
    """The number of an engine that starts."""
    found = started(name, capability, **more)
    assert isinstance(found, EngineCapacity), found
    return found


def refused(name: str, capability: str = "9.0", **more: Any) -> Refusal:
    """Why it does not start."""
    found = started(name, capability, **more)
    assert isinstance(found, Refusal), found
    return found
