"""What a comparison found: options that fit, that may not, and that do not."""

from dataclasses import dataclass

from kvscale.app.plan import Plan
from kvscale.core.refusal import Refusal

BAD_FORMAT = "UnsupportedKvCacheDtype"
TOO_SMALL = frozenset({"ModelDoesNotFit", "SequenceDoesNotFit"})
"""Reasons that say something of a device, and nothing of what was asked."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the pool.

    Attributes:
        gpu: product of the device table.
        tensor_parallel: of one engine; None: as the pool has it.
        kv_cache_dtype: None: as the pool has it.
    """

    gpu: str
    tensor_parallel: int | None = None
    kv_cache_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An option that fits.

    Attributes:
        option, plan: what was asked and what came of it.
        rate: that the numbers are for: "mean", "peak", or "" where they are of one replica at its
            ceiling. It is the same for all rows of a comparison.
        replicas: None where there is no rate, or where they are not known.
        at_peak: replicas at the declared peak rate; None where there is none.
        devices: of all replicas, or of one replica.
        milliseconds_per_token: of one sequence at the planned batch; None where no speed is known.
        micros_per_hour: of these devices; None without a price, or without replicas at the rate.
        micros_per_million: per million output tokens at that rate, or at the ceiling; likewise.
        peak_micros_per_hour: of the replicas at the declared peak rate; None where there are none.
        note: what wants a check.
    """

    option: Option
    plan: Plan
    rate: str
    replicas: int | None
    at_peak: int | None
    devices: int
    milliseconds_per_token: float | None
    micros_per_hour: int | None
    micros_per_million: int | None
    peak_micros_per_hour: int | None = None
    note: str = ""

    @property
    def measure(self) -> int | None:
        """What the rows are sorted by: cost per hour at the rate, or per million tokens."""
        return self.micros_per_hour if self.rate else self.micros_per_million


@dataclass(frozen=True, slots=True)
class Unfit:
    """An option that does not fit, and why; with its plan where that alone is not certain."""

    option: Option
    refusal: Refusal
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The options, the cheapest first.

    Attributes:
        name: of the pool.
        rows: what fits: with a price by their cost, then without one by devices.
        doubtful: what fits by the expected memory, and not by the least, in the order in which
            they were asked for.
        unfit: the rest, in that order too.
        currency: of the costs; "" where there is none.
        rate: of all rows; see `Row`.
        unknown: why there is no rate.
    """

    name: str
    rows: tuple[Row, ...]
    doubtful: tuple[Unfit, ...]
    unfit: tuple[Unfit, ...]
    currency: str
    rate: str
    unknown: str = ""

    @property
    def _fitting(self) -> tuple[Option, ...]:
        """Options that fit, or may."""
        return (*(row.option for row in self.rows), *(one.option for one in self.doubtful))

    @property
    def mistake(self) -> Refusal | None:
        """What no device of the list changes: the question is wrong, not the devices.

        A KV format that none takes, or one and the same refusal for every option.
        """
        for dtype in dict.fromkeys(one.option.kv_cache_dtype for one in self.unfit):
            refused = [one.refusal for one in self.unfit if one.option.kv_cache_dtype == dtype]
            taken = any(one.kv_cache_dtype == dtype for one in self._fitting)
            if not taken and {one.reason for one in refused} == {BAD_FORMAT}:
                return refused[0]
        messages = {one.refusal.message for one in self.unfit}
        if self._fitting or len(messages) != 1:
            return None
        refusal = self.unfit[0].refusal
        return None if refusal.reason in TOO_SMALL else refusal
