"""Options that several commands have, and what their text stands for."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kvscale.cli.errors import fail
from kvscale.cli.files import read_mapping
from kvscale.cli.output import one_line
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import DEFAULT_CURRENCY, MICROS, Price
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import AUTO_LENGTH
from kvscale.core.engines.flag import Kind
from kvscale.core.engines.flag_reading import parse_value
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec

MOST_PER_HOUR = 1_000_000
MOST_DEGREE = 1024
_DTYPE = re.compile(r"[a-z0-9_]{1,32}")

PriceOption = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="GPU=AMOUNT", help="price of a device and hour; repeatable"),
]
PricesOption = Annotated[
    Path | None,
    typer.Option("--prices", help="YAML of such prices: {NVIDIA-L4: 0.80, H100: 2.49}"),
]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="draw it too: a file .svg or .png")]


def device_named(name: str, option: str) -> Device:
    """The device of that name; an unknown one ends the command with close names.

    Args:
        name: as the user gives it.
        option: that held it, for messages.
    """
    device = find_device(name)
    if isinstance(device, Refusal):
        # What a manifest could state instead is no option of a command.
        said = device.message.partition(", or state targets")[0].partition(": state targets")[0]
        fail(one_line(f"{option}: {said}; `kvscale devices` lists them"))
    return device


def whole_number(text: str) -> int:
    """A count or a length, as a server's own arguments may state it: 8192, 8k, 8K.

    Raises:
        BadParameter: it is no such number.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = parse_value(Kind.SIZE, text)
    except ValueError:
        value = None
    if not isinstance(value, int):
        raise typer.BadParameter(f"{text[:40]!r} is no whole number: give one, as in 8192 or 8k")
    return value


def positive_number(text: str) -> int:
    """A count of at least 1; otherwise as `whole_number`.

    Raises:
        BadParameter: it is none.
    """
    value = whole_number(text)
    if value < 1:
        raise typer.BadParameter(f"{value} is below 1: leave it out for the engine's own default")
    return value


def length_or_auto(text: str) -> int:
    """A length as `--max-model-len` takes it: as `whole_number`; -1 for "auto", what fits.

    Raises:
        BadParameter: it is neither.
    """
    return AUTO_LENGTH if text.strip().lower() == "auto" else whole_number(text)


def names(text: str, option: str) -> tuple[str, ...]:
    """The items of a comma-separated list, each once.

    Args:
        text: as the user gives it.
        option: that held it, for messages.
    """
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        fail(f"{option} is empty: give a list, separated by commas")
    return found


def degrees(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers of a list ("1,2,4"), each once."""
    found = []
    for part in names(text, option):
        if not (part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= MOST_DEGREE):
            fail(
                one_line(
                    f"{option}: {part[:40]!r} is no number of devices: give whole numbers from 1 "
                    f"to {MOST_DEGREE}, as in 1,2,4"
                )
            )
        found.append(int(part))
    return tuple(dict.fromkeys(found))


def dtypes(text: str, option: str) -> tuple[str, ...]:
    """Names of KV cache dtypes; whether the engine knows them is for the capacity model."""
    found = names(text, option)
    for part in found:
        if not _DTYPE.fullmatch(part):
            fail(one_line(f"{option}: {part[:40]!r} is no dtype: give names, as in auto,fp8"))
    return found


def given_prices(
    price: Sequence[str] | None, file: Path | None, spec: PoolSpec
) -> Mapping[str, Price]:
    """Prices by product of the device table; those of `--price` win over the file's.

    Args:
        price: texts GPU=AMOUNT.
        file: of `--prices`.
        spec: of the pool, whose currency they are in.
    """
    stated = spec.target.price
    currency = DEFAULT_CURRENCY if stated is None else stated.currency
    found: dict[str, Price] = {}
    for name, amount in (read_mapping(file, "--prices") if file is not None else {}).items():
        product = device_named(name, "--prices").product
        found[product] = Price(_micros(amount, name, "--prices"), currency, "--prices")
    for text in price or ():
        name, sign, amount = text.partition("=")
        if not sign:
            fail(one_line(f"--price is {text[:60]!r}: give GPU=AMOUNT, as in NVIDIA-L4=0.80"))
        product = device_named(name, "--price").product
        found[product] = Price(_micros(amount, name, "--price"), currency, "--price")
    return found


def _micros(amount: Any, name: str, option: str) -> int:
    try:
        value = math.nan if isinstance(amount, bool) else float(amount)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) and 1 / MICROS <= value <= MOST_PER_HOUR):
        fail(
            one_line(
                f"{option}: the price of {name[:60]} is {str(amount)[:40]!r}: give what one device "
                "costs in an hour, above 0, as in 0.80"
            )
        )
    return round(value * MICROS)
