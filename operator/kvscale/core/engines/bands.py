"""Arithmetic on bands of bytes."""

from kvscale.core.values import GIB, Band


def gib(low: float, expected: float, high: float) -> Band:
    """A band of so many GiB, in bytes."""
    return Band(round(low * GIB), round(expected * GIB), round(high * GIB))


def by_ranks(bands: tuple[tuple[int, Band], ...], tensor_parallel: int) -> Band:
    """The band of the first row that asks for no more ranks than there are."""
    return next(band for ranks, band in bands if tensor_parallel >= ranks)


NOTHING = Band.point(0)


def summed(*parts: Band) -> Band:
    """The sum: every part may be at its end at once."""
    if len(parts) == 1:
        return parts[0]
    low = expected = high = 0
    for part in parts:
        low += part.low
        expected += part.expected
        high += part.high
    return Band(low, expected, high)


def scaled(band: Band, numerator: int, denominator: int) -> Band:
    """The band times a fraction."""
    return Band(
        band.low * numerator // denominator,
        band.expected * numerator // denominator,
        band.high * numerator // denominator,
    )
