"""Quantities, as apimachinery reads them."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscale.api.quantity import milli_quantity, parse_quantity, quantity_to_int


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("79Gi", 79 * 2**30),
        ("1.5Ki", 1536),
        ("500m", Decimal("0.5")),
        ("100n", Decimal("1e-7")),
        ("2u", Decimal("2e-6")),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e-2", Decimal("0.01")),
        (".5", Decimal("0.5")),
        ("5.", 5),
        ("-3k", -3000),
        ("+1Ei", 2**60),
    ],
)
def test_a_quantity_is_read_exactly(text: str, value: Decimal) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "Gi", "1 Gi", "1gi", "1KI", "0x10", "1e", "1e3Gi", "NaN", "inf", "1,5", "\u0661", "1\n"],
)
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="79Gi"):
        parse_quantity(text)


def test_a_fraction_rounds_up_as_quantity_value_does() -> None:
    assert quantity_to_int("1500m") == 2
    assert quantity_to_int("0.1", 1000) == 100
    assert quantity_to_int("100100u", 1000) == 101


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_thousandths_survive_the_canonical_form(thousandths: int) -> None:
    assert quantity_to_int(milli_quantity(thousandths), 1000) == thousandths


@settings(deadline=None)
@given(st.integers(0, 2**62), st.sampled_from(["", "k", "M", "Ki", "Mi"]))
def test_whole_numbers_are_never_rounded(number: int, suffix: str) -> None:
    factor = {"": 1, "k": 1000, "M": 10**6, "Ki": 1024, "Mi": 2**20}[suffix]
    assert quantity_to_int(f"{number}{suffix}") == number * factor
