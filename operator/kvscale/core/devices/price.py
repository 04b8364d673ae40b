"""What a device costs, and who says so."""

from collections.abc import Callable
from dataclasses import dataclass

from kvscale.core.devices.device import Device

MICROS = 1_000_000
DEFAULT_CURRENCY = "USD"


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one device for one hour.

    Attributes:
        micros_per_device_hour: in millionths of the currency; positive. There is no price of 0:
            what is not known is absent.
        currency: its ISO 4217 code.
        source: who says so, for people ("spec.targets[0].cost", "list price of g6.xlarge ...").
        as_of: the day of the figure ("2026-07-20"); "" if it has none.
    """

    micros_per_device_hour: int
    currency: str = DEFAULT_CURRENCY
    source: str = ""
    as_of: str = ""

    @property
    def per_device_hour(self) -> float:
        """In units of the currency."""
        return self.micros_per_device_hour / MICROS

    @property
    def described(self) -> str:
        """The price with its source and day, for people."""
        source = ", ".join(filter(None, (self.source, self.as_of)))
        return f"{self.short} ({source})"

    @property
    def short(self) -> str:
        """The price alone, for people."""
        whole, _, cents = f"{self.per_device_hour:,.6f}".partition(".")
        amount = f"{whole}.{cents.rstrip('0').ljust(2, '0')}"
        return f"{amount} {self.currency} per device and hour"


PriceOf = Callable[[Device, int], Price | None]
"""The price of one device of a replica that needs so many; None: there is none."""
