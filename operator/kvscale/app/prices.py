"""Which price counts: the one given beside the pool, the pool's own, or the list price."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvscale.core.devices.device import Device
from kvscale.core.devices.price import DEFAULT_CURRENCY, Price
from kvscale.core.devices.price_table import list_price
from kvscale.core.devices.table import find_device
from kvscale.core.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Prices:
    """Where prices come from, the first that has one.

    Attributes:
        given: by product, for this one question.
        stated: the pool's own (`targets[].cost`), for the product that it runs on.
        currency: of all costs; a list price in another one is no price.
    """

    given: Mapping[str, Price] = field(default_factory=dict)
    stated: tuple[str, Price] | None = None
    currency: str = DEFAULT_CURRENCY

    def of(self, device: Device, devices: int) -> Price | None:
        """The price of one device of a replica that needs so many; None: there is none.

        Args:
            device: which.
            devices: of one replica.
        """
        given = self.given.get(device.product)
        if given is not None:
            return given
        if self.stated is not None and self.stated[0] == device.product:
            return self.stated[1]
        listed = list_price(device.product, devices)
        return listed if listed is not None and listed.currency == self.currency else None


def prices_of(
    spec: PoolSpec, own: Device | None, given: Mapping[str, Price] | None = None
) -> Prices:
    """The prices that count for a pool.

    Args:
        spec: of the pool; its price is that of the device that the spec names.
        own: the device that the price is of where the spec names none; None: it is of none.
        given: by product of the device table; they are in the pool's currency.
    """
    price = spec.target.price
    if price is None:
        return Prices(given or {})
    named = find_device(spec.target.devices.product or "")
    device = named if isinstance(named, Device) else own
    stated = None if device is None else (device.product, price)
    return Prices(given or {}, stated, price.currency)
