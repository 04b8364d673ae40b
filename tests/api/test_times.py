"""RFC 3339 times, to and from epoch seconds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscale.api.times import format_time, parse_time

YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799


@settings(deadline=None)
@given(st.integers(YEAR_1, YEAR_9999))
def test_whole_seconds_survive_the_format(at: int) -> None:
    assert parse_time(format_time(at)) == at


def test_a_fraction_of_a_second_is_read_and_written_rounded_down() -> None:
    assert parse_time("1970-01-01T00:00:01.25Z") == 1.25
    assert parse_time("1970-01-01t00:00:01.000000001z") == pytest.approx(1.000000001)
    assert format_time(1.99) == "1970-01-01T00:00:01Z"


def test_a_zone_is_taken_into_account() -> None:
    assert parse_time("2026-11-29T20:00:00+02:00") == parse_time("2026-11-29T18:00:00Z")


def test_an_early_year_keeps_its_four_digits() -> None:
    assert format_time(YEAR_1) == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-29",
        "2026-11-29T18:00:00",
        "2026-02-30T18:00:00Z",
        "2026-11-29T18:00:00+99:00",
        "2026-11-29 18:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_what_is_no_such_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="2026-11-29T18:00:00Z"):
        parse_time(text)
