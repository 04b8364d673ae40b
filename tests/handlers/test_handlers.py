"""What kopf is asked to do: wake the loop for what people change, and answer probes."""

from collections.abc import Sized
from itertools import islice

import kopf
import pytest

from kvscale.handlers import Probe, Seen, configure


class StillLoop:
    last_finished: float | None = None
    last_problem = "not synced: pods"


def test_a_spec_change_an_annotation_and_a_deletion_are_news_and_a_status_write_is_none():
    seen = Seen()
    assert seen.is_news(None, "u", 1, {})
    assert not seen.is_news("MODIFIED", "u", 1, {})
    assert not seen.is_news("MODIFIED", "u", 1, {"other.io/note": "x"})
    assert seen.is_news("MODIFIED", "u", 2, {})
    assert seen.is_news("MODIFIED", "u", 2, {"kvscale.io/freeze": "ScaleUp"})
    assert seen.is_news("MODIFIED", "u", 2, {})
    assert seen.is_news("DELETED", "u", 2, {})
    assert seen.is_news("ADDED", "u", 2, {}), "a pool of the same uid that is back is new"


def test_a_loop_that_finished_a_round_lately_is_alive():
    loop = StillLoop()
    loop.last_finished = 100.0
    told = Probe(loop, alive_within=60.0, now=lambda: 159.0, started=0.0).check()
    assert told == {"secondsSinceRound": 59.0, "problem": "not synced: pods"}


@pytest.mark.parametrize("last", [None, 100.0])
def test_a_loop_that_finished_none_for_too_long_is_dead_and_says_why(last):
    loop = StillLoop()
    loop.last_finished = last
    probe = Probe(loop, alive_within=60.0, now=lambda: 161.0, started=100.0)
    with pytest.raises(RuntimeError, match="61 s without a finished round: not synced: pods"):
        probe.check()


@pytest.mark.parametrize("scan", [True, False])
def test_the_settings_that_kopf_needs_changed(scan):
    settings = kopf.OperatorSettings()
    configure(settings, scan=scan)
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.scanning.disabled is not scan
    assert settings.networking.request_timeout <= 30
    assert settings.watching.inactivity_timeout
    attempts = settings.networking.error_backoffs
    assert not isinstance(attempts, Sized), "a length is the number of attempts until kopf ends"
    for _ in range(2):  # each request begins anew
        waits = list(islice(attempts, 500))
        assert (waits[0], max(waits), len(waits)) == (1, 10, 500)
