"""The estimate of KV memory and its tokens, against every public boot log that states enough."""

import math
import statistics

import pytest

from support.boot_page import PAGE, error, memory, text, tokens_error
from support.boot_rows import GIB, Boot, boots, share, why_no_memory, why_no_tokens

BOOTS = boots()
WITH_MEMORY = [boot for boot in BOOTS if not why_no_memory(boot)]
WITH_TOKENS = [boot for boot in BOOTS if not why_no_tokens(boot)]


def test_enough_rows_state_what_an_estimate_needs() -> None:
    assert len(WITH_MEMORY) >= 80
    assert len(WITH_TOKENS) >= 60
    assert len(BOOTS) >= 150


def test_the_estimate_errs_by_little_of_the_devices_memory() -> None:
    errors = sorted(abs(error(boot)) for boot in WITH_MEMORY)
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
    assert len(held) >= 7
    errors = [abs(error(boot)) for boot in held]
    assert statistics.median(errors) <= 0.02
    assert max(errors) <= 0.05
    for boot in held:
        band, logged, _ = memory(boot)
        assert band.low <= logged * GIB <= band.high


@pytest.mark.parametrize("boot", WITH_TOKENS, ids=lambda boot: boot.name)
def test_tokens_follow_from_the_memory_by_each_versions_meaning(boot: Boot) -> None:
    assert tokens_error(boot) == pytest.approx(0, abs=0.013)


def test_the_page_is_what_the_rule_says_now() -> None:
    assert PAGE.read_text() == text(), "PYTHONPATH=operator:tests python -m support.boot_page"
