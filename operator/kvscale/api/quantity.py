"""Kubernetes quantities, exactly.

Source: kubernetes v1.37 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go: a decimal
number with a binary suffix (Ki to Ei), a decimal suffix (n to E) or a decimal exponent (e3, E-2).
"""

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)


def parse_quantity(text: str) -> Decimal:
    """The number that a quantity stands for, without rounding.

    Args:
        text: as in the API: "79Gi", "500m", "1e3", "0.1".

    Raises:
        ValueError: the text is no quantity; the message says what one looks like.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no quantity: write a number with a unit, as in "79Gi"')
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        return number.scaleb(int(match["exponent"]))
    return number * _SUFFIXES[match["suffix"] or ""]


def quantity_to_int(text: str, per_unit: int = 1) -> int:
    """A quantity as a whole number, rounded up as `Quantity.Value()` does.

    Args:
        text: the quantity.
        per_unit: 1 for the value itself, 1000 for thousandths.

    Raises:
        ValueError: the text is no quantity.
    """
    return int((parse_quantity(text) * per_unit).to_integral_value(ROUND_CEILING))


def milli_quantity(thousandths: int) -> str:
    """Thousandths in the canonical form that the API server prints: "100m", "1"."""
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)
