"""Pictures of plans and comparisons. Loaded only when one is asked for."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kvscale.app.compare import Comparison
from kvscale.app.compare_view import label
from kvscale.app.plan import Plan
from kvscale.cli.plot_panels import cost_panel, length_panel, policy_panel, rate_panel
from kvscale.core.capacity.cost.price import MICROS
from kvscale.core.trace import counted

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "kvscale",
}
"""The salt makes the names inside an SVG the same every time."""

DPI = 150
BAR_INCHES = 0.34
MOST_BARS = 40
BLUE, GREY = "#2a6fbb", "#9aa5b1"


def save(figure: Figure, path: Path) -> None:
    """Write the figure; the same figure gives the same file.

    Args:
        figure: drawn.
        path: whose suffix names the format.

    Raises:
        OSError: it cannot be written.
    """
    is_svg = path.suffix.lower() == ".svg"
    with mpl.rc_context(STYLE):
        figure.savefig(
            path,
            format="svg" if is_svg else "png",
            dpi=DPI,
            metadata={"Date": None} if is_svg else {"Software": None},
        )


def plan_figure(plan: Plan) -> Figure:
    """A plan in four panels."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 8), layout="constrained")
        axes = figure.subplots(2, 2)
        engine, device = plan.engine, plan.device
        figure.suptitle(
            f"{plan.name}: {plan.shape.name} on {plan.devices_per_replica} x {device.product} "
            f"({engine.kind.value} {engine.version or ''})".replace(" )", ")"),
            fontsize=12,
        )
        length_panel(axes[0][0], plan)
        rate_panel(axes[0][1], plan)
        cost_panel(axes[1][0], plan)
        policy_panel(axes[1][1], plan)
        return figure


def compare_figure(found: Comparison) -> Figure:
    """The options as bars, the first at the top: cost per hour and devices."""
    with mpl.rc_context(STYLE):
        rows = found.rows[:MOST_BARS]
        figure = Figure(figsize=(11, 1.6 + BAR_INCHES * max(3, len(rows))), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        names = [label(row) for row in rows]
        places = list(range(len(rows)))
        rate = next((f" at the {row.rate} rate" for row in rows if row.rate), " of one replica")
        figure.suptitle(f"{found.name}: what the traffic costs{rate}", fontsize=12)
        costs = [(row.micros_per_hour or 0) / MICROS for row in rows]
        bars = left.barh(places, costs, color=BLUE)
        texts = ["no price" if row.micros_per_hour is None else "" for row in rows]
        left.bar_label(
            bars,
            [text or f"{cost:,.2f}" for text, cost in zip(texts, costs, strict=True)],
            padding=3,
        )
        left.set_title("Cost")
        left.set_xlabel(f"{found.currency or 'cost'} per hour")
        devices = [row.devices for row in rows]
        bars = right.barh(places, devices, color=GREY)
        right.bar_label(
            bars,
            [
                f"{row.devices}"
                + (f" ({counted(row.replicas, 'replica')})" if row.replicas else "")
                for row in rows
            ],
            padding=3,
        )
        right.set_title("Devices")
        right.set_xlabel("devices")
        for axis, most in ((left, max(costs, default=0)), (right, max(devices, default=0))):
            axis.set_yticks(places, names)
            axis.grid(axis="y", visible=False)
            axis.set_xlim(0, 1.35 * most or 1)
            axis.set_ylim(len(rows) - 0.4, -0.6)
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
        return figure
