"""The estimate of KV memory and its tokens, against every public boot log that states enough."""

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.values import Band
from support.boot_rows import GIB, Boot, boots, share, why_no_memory, why_no_tokens

DOC = Path(__file__).parents[3] / "docs" / "boot-logs.md"

LENGTH = 1024
"""The KV memory does not depend on the length; a log may be of a start that failed by it."""

BOOTS = boots()
WITH_MEMORY = [boot for boot in BOOTS if not why_no_memory(boot)]
WITH_TOKENS = [boot for boot in BOOTS if not why_no_tokens(boot)]

FEWEST_BLOCKS = 1000
"""Of a pool whose rounded GiB say its tokens within 1.3 %."""


def memory(boot: Boot) -> tuple[Band, float, Device]:
    """Estimated bytes, logged GiB, device."""
    device, shape, logged = boot.device, boot.shape, boot.number("reported_kv_gib")
    assert device is not None
    assert shape is not None
    assert logged is not None
    found = engine_capacity(shape, replace(boot.engine, max_model_len=LENGTH), device)
    assert isinstance(found, EngineCapacity), (boot.name, found)
    return found.kv_memory_bytes, logged, device


def test_enough_rows_state_what_an_estimate_needs() -> None:
    assert len(WITH_MEMORY) >= 20
    assert len(WITH_TOKENS) >= 12
    assert len(BOOTS) >= 70


def test_the_estimate_errs_by_little_of_the_devices_memory() -> None:
    errors = sorted(
        abs(share(band.expected / GIB - logged, device))
        for band, logged, device in map(memory, WITH_MEMORY)
    )
    assert statistics.median(errors) <= 0.02
    assert errors[math.ceil(0.95 * len(errors)) - 1] <= 0.05


def test_the_truth_lies_in_the_band_and_the_band_is_not_wide() -> None:
    inside, widths = [], []
    for boot in WITH_MEMORY:
        band, logged, device = memory(boot)
        inside.append(band.low <= logged * GIB <= band.high)
        widths.append(share((band.high - band.low) / GIB, device))
    assert sum(inside) >= 0.95 * len(inside)
    assert statistics.median(widths) <= 0.08


def test_rows_that_no_constant_was_taken_from_do_no_worse() -> None:
    held = [boot for boot in WITH_MEMORY if "held_out" in boot.notes]
    assert len(held) >= 3
    for boot in held:
        band, logged, device = memory(boot)
        assert abs(share(band.expected / GIB - logged, device)) <= 0.02
        assert band.low <= logged * GIB <= band.high


@pytest.mark.parametrize("boot", WITH_TOKENS, ids=lambda boot: boot.name)
def test_tokens_follow_from_the_memory_by_each_versions_meaning(boot: Boot) -> None:
    shape, logged = boot.shape, boot.number("reported_kv_gib")
    tokens = boot.number("reported_kv_tokens")
    assert shape is not None
    assert logged is not None
    assert tokens is not None
    device = boot.device or Device("not stated", 512 * GIB, compute_capability="9.0")
    found = engine_capacity(shape, boot.engine, device, round(logged * GIB))
    assert isinstance(found, EngineCapacity), found
    assert found.kv_cache_size_tokens.expected == pytest.approx(tokens, rel=0.013)


def test_the_page_lists_every_row() -> None:
    listed = DOC.read_text()
    missing = [boot.name for boot in BOOTS if f"| {boot.name} |" not in listed]
    assert missing == []
