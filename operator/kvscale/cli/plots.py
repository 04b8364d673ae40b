"""Pictures of plans and comparisons. Loaded only when one is asked for."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from kvscale.app.comparison import Comparison
from kvscale.app.plan import Plan
from kvscale.cli.plot_compare import draw_comparison
from kvscale.cli.plot_panels import cost_panel, length_panel, policy_panel, rate_panel

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
    """The options as bars, the first at the top: cost and devices."""
    with mpl.rc_context(STYLE):
        return draw_comparison(found)
