"""The panels of a plan's picture."""

import math
import textwrap
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from kvscale.app.plan import Plan
from kvscale.app.plan_cost import PlanCost
from kvscale.core.capacity.engine import sequences_at
from kvscale.core.devices.price import MICROS
from kvscale.core.planning.cost.tokens import hourly, per_million, tokens_per_second
from kvscale.core.planning.floor import Floor
from kvscale.core.planning.policies import Policy
from kvscale.core.planning.service import Service
from kvscale.core.spec import PlanningMode
from kvscale.core.values import Unknown

BLUE, ORANGE, GREEN, RED, GREY = "#2a6fbb", "#d9822b", "#3b8f5a", "#c23b3b", "#5c6670"
POINTS = 120
SHORTEST = 64
FEW_DECADES = 200
POLICY_NAMES = {
    Policy.CONTIGUOUS: "contiguous,\nmaximum length",
    Policy.FRAGMENTED: "contiguous,\npowers of two",
    Policy.PAGED: "paged",
    Policy.SHARED_PREFIX: "paged, shared\nprefix",
}


def length_panel(axis: Axes, plan: Plan) -> None:
    """Resident sequences of an engine against their length, with the band of the estimate."""
    longest = plan.capacity.max_model_len
    shortest = min(SHORTEST, longest)
    lengths = _spread(shortest, longest)
    bands = [sequences_at(plan.capacity, tokens) for tokens in lengths]
    low, expected, high = (
        [max(0.5, getattr(band, name)) for band in bands] for name in ("low", "expected", "high")
    )
    most = plan.capacity.max_num_seqs
    least, largest = ([min(count, most) for count in counts] for counts in (low, high))
    if least != largest:
        axis.fill_between(
            lengths, least, largest, color=BLUE, alpha=0.2, linewidth=0, label="low to high"
        )
    if any(count > most for count in expected):
        axis.plot(
            lengths,
            [count if count >= most else math.nan for count in expected],
            color=GREY,
            linestyle="--",
            linewidth=1,
            alpha=0.7,
            label="memory for more than run",
        )
    running = [min(count, most) for count in expected]
    axis.plot(lengths, running, color=BLUE, label=f"expected, at most {most:,} run")
    axis.set(xscale="log", yscale="log", xlabel="prompt + output, tokens", ylabel="sequences")
    axis.set_title("Resident sequences of one engine")
    _plain(axis)
    _room_above(axis)
    _marks(axis, [(one.name, one.tokens) for one in plan.ceilings if one.name != "max"])
    _legend_below(axis)


def rate_panel(axis: Axes, plan: Plan) -> None:
    """Replicas against the request rate, with the declared rates."""
    axis.set_title("Replicas for a request rate")
    floor, traffic = plan.floor, plan.spec.traffic
    if not isinstance(floor, Floor) or traffic is None:
        why = floor.message if isinstance(floor, Unknown) and traffic is not None else ""
        _say(axis, why or "no traffic is declared")
        return
    declared = [
        (name, rate)
        for name, rate in (("mean", traffic.mean_per_minute), ("peak", traffic.peak_per_minute))
        if rate is not None
    ]
    most = 1.25 * max(rate for _, rate in declared)
    rates = [most * step / POINTS for step in range(POINTS + 1)]
    for mode, found in plan.floors.items():
        if isinstance(found, Floor):
            one = found.requests_per_minute_milli / 1000
            replicas = [max(1, math.ceil(round(rate / one, 9))) for rate in rates]
            label, color, style = _mode_style(plan, mode)
            axis.step(rates, replicas, where="pre", color=color, linestyle=style, label=label)
    axis.set(xlabel="requests per minute", ylabel="replicas", xlim=(0, most))
    axis.set_ylim(bottom=0)
    axis.set_ylim(top=1.15 * axis.get_ylim()[1])
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    _marks(axis, declared)
    _legend_below(axis)


def _mode_style(plan: Plan, mode: PlanningMode) -> tuple[str, str, str]:
    """Label, colour and line of a planning mode; the one in effect is drawn through."""
    style = "-" if mode is plan.spec.planning_mode else "--"
    if mode is PlanningMode.PERCENTILE:
        return f"p{plan.spec.percentile} of the length", BLUE, style
    share = plan.spec.overflow_per_million / 10_000
    return f"overflow at most {share:g} % of the time", ORANGE, style


def cost_panel(axis: Axes, plan: Plan) -> None:
    """Cost of output tokens against the batch, with the ceiling and the crossover."""
    axis.set_title("Cost of output tokens")
    cost, decode = plan.cost, plan.decode
    if not isinstance(cost, PlanCost) or not isinstance(decode, Service):
        _say(axis, "no price or speed is known")
        return
    ceiling = cost.points[0].batch_milli
    # No batch beyond max_num_seqs ever runs.
    last = plan.capacity.max_num_seqs
    last = max(2, min(last, math.ceil(4 * max(1.0, ceiling.high / 1000, plan.crossover or 0))))
    batches = _spread(1, last)
    engine_hour = hourly(cost.price, plan.capacity.devices)
    costs = [per_million(engine_hour, tokens_per_second(decode, b)) / MICROS for b in batches]
    axis.plot(batches, costs, color=BLUE)
    if ceiling.low != ceiling.high:
        axis.axvspan(
            ceiling.low / 1000,
            ceiling.high / 1000,
            color=ORANGE,
            alpha=0.15,
            linewidth=0,
            label="ceiling, low to high",
        )
    axis.axvline(
        ceiling.expected / 1000,
        color=ORANGE,
        label=f"ceiling, expected: {ceiling.expected / 1000:,.0f}",
    )
    for point in cost.points[1:]:
        axis.axvline(
            point.batch_milli.expected / 1000,
            color=GREEN,
            linestyle="--",
            label=f"plan: {point.batch_milli.expected / 1000:,.1f}",
        )
    if plan.crossover is not None and plan.crossover <= last:
        axis.axvline(plan.crossover, color=RED, linestyle=":", label="bound by compute from here")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel=f"resident sequences of an engine\n{_bound(plan)}",
        ylabel=f"{cost.price.currency} per million output tokens",
    )
    _plain(axis)
    _legend_below(axis)


def _bound(plan: Plan) -> str:
    """What decode steps are bound by."""
    if plan.crossover is None:
        return "(every step is bound by memory)"
    return f"(a step is bound by memory below a batch of {plan.crossover:,})"


def policy_panel(axis: Axes, plan: Plan) -> None:
    """Sequences of an engine under each allocation policy."""
    found = plan.policies
    axis.set_title(f"Allocation policies, sequences of {found.tokens:,} tokens")
    places = range(len(found.allocations))
    counts = [one.sequences.expected for one in found.allocations]
    errors = [
        [one.sequences.expected - one.sequences.low for one in found.allocations],
        [one.sequences.high - one.sequences.expected for one in found.allocations],
    ]
    colors = [BLUE if one.policy is Policy.PAGED else "#9aa5b1" for one in found.allocations]
    bars = axis.bar(places, counts, color=colors, width=0.6)
    if any(map(any, errors)):
        axis.errorbar(places, counts, yerr=errors, fmt="none", ecolor=GREY, capsize=4, linewidth=1)
    tops = [one.sequences.high for one in found.allocations]
    for place, bar, one, top in zip(places, bars, found.allocations, tops, strict=True):
        axis.annotate(
            f"{one.sequences.expected:,}\n{one.used_share_milli / 10:.0f} % used",
            (place, max(top, bar.get_height())),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
        )
    axis.set_xticks(list(places), [POLICY_NAMES[one.policy] for one in found.allocations])
    axis.set_ylabel("sequences per engine")
    axis.set_ylim(0, 1.25 * max([*tops, 1]))
    axis.grid(axis="x", visible=False)


def _legend_below(axis: Axes) -> None:
    """The legend under the axes, where it hides nothing."""
    lines = axis.get_xlabel().count("\n")
    axis.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16 - 0.04 * lines),
        ncols=2,
        fontsize=8,
        handlelength=1.6,
    )


def _room_above(axis: Axes) -> None:
    """Room for names above a falling curve on a logarithmic scale."""
    bottom, top = axis.get_ylim()
    bottom = 10.0 ** math.floor(math.log10(bottom))  # a line with a label below the curve
    axis.set_ylim(bottom, top * (top / bottom) ** 0.2)


def _spread(first: float, last: int) -> list[int]:
    """Whole numbers from first to last, even on a logarithmic scale."""
    ratio = last / first
    return sorted({max(1, round(first * ratio ** (step / POINTS))) for step in range(POINTS + 1)})


def _marks(axis: Axes, marks: Iterable[tuple[str, float]]) -> None:
    """Vertical lines with their names above the axes, close ones one above the other."""
    ordered = sorted(marks, key=lambda mark: mark[1])
    for index, (name, value) in enumerate(ordered):
        axis.axvline(value, color=GREY, linestyle=":", linewidth=1)
        axis.annotate(
            f" {name}",
            (value, 0.99 - 0.055 * (index % 3)),
            xycoords=("data", "axes fraction"),
            ha="left",
            va="top",
            color=GREY,
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
        )


def _plain(axis: Axes) -> None:
    """Numbers as people write them, not as powers of ten."""
    for one in (axis.xaxis, axis.yaxis):
        first, last = one.get_view_interval()
        if last < FEW_DECADES * first:  # a label at each power of ten would be one or none
            one.set_major_locator(LogLocator(subs=(1, 2, 5)))
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        one.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _say(axis: Axes, text: str) -> None:
    """A panel without a picture."""
    axis.set_axis_off()
    shown = textwrap.fill(text, 48, break_on_hyphens=False)
    axis.text(0.5, 0.5, shown, ha="center", va="center", color=GREY, transform=axis.transAxes)
