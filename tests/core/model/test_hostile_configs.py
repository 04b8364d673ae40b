"""Configs that anybody may hand in: read, or refused with the key at fault, and soon."""

import time

import pytest

from bench.hostile_configs import Hostile, hostile_configs, slow_configs
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

SEEDS = range(10)
EACH = 1000
MOST_LETTERS = 500
SLOWEST_SECONDS = 0.5
"""Of CPU, five times what `make bench` allows: other things run beside the tests."""

REASONS = {
    "InvalidConfig", "UnknownArchitecture", "UnsupportedLayerKind", "UnsupportedQuantization",
}  # fmt: skip


def check(hostile: Hostile) -> ModelShape | Refusal:
    """Read it; what comes back is a usable shape, or says what is wrong and where."""
    found = read_shape(hostile.config, "hostile", hostile.quantization)
    if isinstance(found, ModelShape):
        assert found.parameters > 0, hostile.what
        assert all(group.parameters > 0 for group in found.weight_groups), hostile.what
        assert all(group.layers > 0 for group in found.layer_groups), hostile.what
    else:
        assert found.reason in REASONS, hostile.what
        assert found.field, hostile.what
        assert found.field.rpartition(".")[2] in found.message, (hostile.what, found)
        assert len(found.message) <= MOST_LETTERS, (hostile.what, found.message)
        assert "\n" not in found.message, (hostile.what, found.message)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_thousand_hostile_configs_are_read_or_refused_by_key(seed: int) -> None:
    found = [check(hostile) for hostile in hostile_configs(EACH, seed)]
    assert len(found) == EACH
    refused = sum(isinstance(one, Refusal) for one in found)
    assert refused > EACH // 2  # the fuzz breaks what matters
    assert refused < EACH  # and not everything


def test_what_is_built_to_be_slow_is_not() -> None:
    for hostile in slow_configs():
        start = time.process_time()
        check(hostile)
        assert time.process_time() - start < SLOWEST_SECONDS, hostile.what


def test_a_shape_that_was_read_of_a_hostile_config_gives_a_capacity_or_a_reason() -> None:
    device = find_device("NVIDIA-H200")
    assert not isinstance(device, Refusal)
    for hostile in hostile_configs(EACH, len(SEEDS)):
        shape = read_shape(hostile.config, "hostile", hostile.quantization)
        if isinstance(shape, Refusal):
            continue
        answer = engine_capacity(shape, EngineConfig(tensor_parallel=2), device)
        if isinstance(answer, EngineCapacity):
            assert answer.kv_blocks.low >= 0, hostile.what
        else:
            assert answer.message, hostile.what


def test_the_same_seed_gives_the_same_configs() -> None:
    first = [(one.what, repr(one.config)) for one in hostile_configs(50, 1)]
    assert first == [(one.what, repr(one.config)) for one in hostile_configs(50, 1)]
