"""The picture of a comparison: bars of what the rows are sorted by, and of devices."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kvscale.app.compare_view import label
from kvscale.app.comparison import Comparison, Row
from kvscale.core.devices.price import MICROS
from kvscale.core.trace import counted

BAR_INCHES = 0.34
MOST_BARS = 40
BLUE, LIGHT_BLUE = "#2a6fbb", "#c3d8ee"
GREY, LIGHT_GREY = "#808b96", "#dde1e5"


def draw_comparison(found: Comparison) -> Figure:
    """The options that are ranked, the first at the top; light bars are the peak rate."""
    rows = found.rows[:MOST_BARS]
    figure = Figure(figsize=(11, 1.9 + BAR_INCHES * max(3, len(rows))), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    figure.suptitle(_title(found), fontsize=12)
    at_peak = found.rate == "mean" and any(row.at_peak is not None for row in rows)
    _costs(left, found, rows, at_peak=at_peak)
    _devices(right, rows, at_peak=at_peak)
    for axis in (left, right):
        axis.set_yticks(range(len(rows)), [label(row) for row in rows])
        axis.grid(axis="y", visible=False)
        axis.set_ylim(max(1, len(rows)) - 0.4, -0.6)
    if at_peak:
        figure.legend(
            handles=[
                Patch(color=BLUE, label="cost, mean rate"),
                Patch(color=LIGHT_BLUE, label="cost, peak rate"),
                Patch(color=GREY, label="devices, mean rate"),
                Patch(color=LIGHT_GREY, label="devices, peak rate"),
            ],
            loc="outside lower center",
            ncols=4,
        )
    return figure


def _title(found: Comparison) -> str:
    if found.rate:
        return f"{found.name}: what the declared traffic takes at the {found.rate} rate"
    return f"{found.name}: one replica on each device, with every sequence that fits running"


def _costs(axis: Axes, found: Comparison, rows: Sequence[Row], *, at_peak: bool) -> None:
    """What the rows are sorted by."""
    costs = [(row.measure or 0) / MICROS for row in rows]
    peaks = [(row.peak_micros_per_hour or 0) / MICROS for row in rows] if at_peak else None
    texts = [
        "no price" if row.measure is None else f"{cost:,.2f}{_peak(peaks, place, cost, '{:,.2f}')}"
        for place, (row, cost) in enumerate(zip(rows, costs, strict=True))
    ]
    axis.set_title("Cost per hour" if found.rate else "Cost of output tokens")
    per = "hour" if found.rate else "million output tokens"
    axis.set_xlabel(f"{found.currency or 'cost'} per {per}")
    _bars(axis, costs, peaks, texts, (BLUE, LIGHT_BLUE))


def _devices(axis: Axes, rows: Sequence[Row], *, at_peak: bool) -> None:
    each = [row.plan.devices_per_replica for row in rows]
    peaks = (
        [(row.at_peak or 0) * count for row, count in zip(rows, each, strict=True)]
        if at_peak
        else None
    )
    texts = [
        f"{row.devices:,}"
        + (f" in {counted(row.replicas, 'replica')}" if row.replicas else "")
        + _peak(peaks, place, row.devices, "{:,}")
        for place, row in enumerate(rows)
    ]
    axis.set_title("Devices" if any(row.replicas for row in rows) else "Devices of one replica")
    axis.set_xlabel("devices")
    _bars(axis, [row.devices for row in rows], peaks, texts, (GREY, LIGHT_GREY))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _peak(peaks: Sequence[float] | None, place: int, mean: float, style: str) -> str:
    """The value at the peak rate beside that at the mean one, where it is another."""
    if not peaks or peaks[place] in {0, mean}:
        return ""
    return f" (peak {style.format(peaks[place])})"


def _bars(
    axis: Axes,
    values: Sequence[float],
    peaks: Sequence[float] | None,
    texts: Sequence[str],
    colors: tuple[str, str],
) -> None:
    """A bar for each value, its peak as a light one behind, and its text beside both."""
    places = range(len(values))
    ends = list(values)
    if peaks is not None:
        axis.barh(places, peaks, color=colors[1], height=0.8)
        ends = [max(pair) for pair in zip(values, peaks, strict=True)]
    axis.barh(places, values, color=colors[0], height=0.8 if peaks is None else 0.45)
    for place, text, end in zip(places, texts, ends, strict=True):
        axis.annotate(
            text, (end, place), xytext=(4, 0), textcoords="offset points", ha="left", va="center"
        )
    axis.set_xlim(0, 1.5 * max(ends, default=0) or 1)
