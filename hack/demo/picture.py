"""timeline.svg and timeline.png: load, cache and replicas over one axis of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MultipleLocator

from demo.rounds import Round
from demo.story import clock, rate
from demo.summary import Moves

INK, GREY, FAINT = "#1f2933", "#7b8794", "#e4e7eb"
LOAD, CACHE, READY, WANTED = "#3e7cb1", "#d9822b", "#2f9e77", "#1f2933"
OUT, BACK, TROUBLE = "#c2410c", "#15803d", "#b91c1c"


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is drawn.

    Attributes:
        title, subtitle: above the picture.
        load: what the traffic is.
        arrivals: seconds at which requests arrived.
        rounds: the operator's.
        target: occupancy that the operator aims at.
        limit: replicas that the nodes hold.
    """

    title: str
    subtitle: str
    load: str
    arrivals: Sequence[float]
    rounds: Sequence[Round]
    target: float
    limit: int


def draw(timeline: Timeline, folder: Path) -> list[Path]:
    """Draw it; the files."""
    with mpl.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "xtick.color": GREY,
            "ytick.color": GREY,
            "svg.fonttype": "path",
        }
    ):
        figure = Figure(figsize=(13, 9.2), layout="constrained")
        load, cache, replicas = figure.subplots(3, 1, sharex=True, height_ratios=(1.0, 1.3, 2.2))
        _draw_load(load, timeline)
        _draw_cache(cache, timeline)
        _draw_replicas(replicas, timeline)
        _draw_time(replicas, timeline)
        for axes in (load, cache, replicas):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
            axes.set_axisbelow(True)
        paths = [folder / "timeline.svg", folder / "timeline.png"]
        for path in paths:
            figure.savefig(path, dpi=130, facecolor="white")
    return paths


def _name(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, color=INK, pad=6)


def _draw_load(axes: Axes, timeline: Timeline) -> None:
    times = [one.at for one in timeline.rounds]
    rates = [rate(timeline.arrivals, at) for at in times]
    axes.fill_between(times, rates, color=LOAD, alpha=0.35, linewidth=0)
    axes.plot(times, rates, color=LOAD, linewidth=1.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("requests / s")
    axes.annotate(
        "the first replica\nloads the model", (6, 0.12), xycoords=("data", "axes fraction"),
        fontsize=9, color=GREY,
    )  # fmt: skip
    axes.text(
        0, 1.47, timeline.title, transform=axes.transAxes, fontsize=17, fontweight="bold",
    )  # fmt: skip
    axes.text(0, 1.28, timeline.subtitle, transform=axes.transAxes, color=GREY)
    _name(axes, timeline.load)


def _draw_cache(axes: Axes, timeline: Timeline) -> None:
    known = [(one.at, one.occupancy * 100) for one in timeline.rounds if one.occupancy is not None]
    axes.plot([at for at, _ in known], [used for _, used in known], color=CACHE, linewidth=1.6)
    axes.fill_between(
        [at for at, _ in known], [used for _, used in known], color=CACHE, alpha=0.15, linewidth=0
    )
    target = timeline.target * 100
    axes.axhline(target, color=GREY, linestyle=(0, (4, 3)), linewidth=1)
    end = timeline.rounds[-1].at
    axes.text(
        end, target + 2, f"what the operator aims at: {target:.0f} %", ha="right", va="bottom",
        color=GREY,
    )  # fmt: skip
    lost = [one.at for one in timeline.rounds if one.preemptions]
    axes.plot(
        lost, [107] * len(lost), "x", color=TROUBLE, markersize=4.5, label="requests preempted",
        linestyle="none", clip_on=False,
    )  # fmt: skip
    axes.set_ylim(0, 112)
    axes.yaxis.set_major_locator(MultipleLocator(25))
    axes.set_ylabel("KV cache in use, %")
    queue = axes.twinx()
    waits = [(one.at, one.waiting) for one in timeline.rounds if one.waiting is not None]
    queue.plot(
        [at for at, _ in waits], [count for _, count in waits],
        color=TROUBLE, linewidth=1.2, alpha=0.8, label="requests waiting",
    )  # fmt: skip
    queue.set_ylim(0, 1.15 * max([1, *(count for _, count in waits)]))
    queue.set_ylabel("requests waiting", color=TROUBLE)
    queue.tick_params(axis="y", colors=TROUBLE)
    queue.spines[["top", "left"]].set_visible(False)
    queue.spines["right"].set_color(TROUBLE)
    handles = [*axes.get_legend_handles_labels()[0], *queue.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, loc="upper right", frameon=False, bbox_to_anchor=(1.0, 0.76))
    _name(axes, "KV cache of the ready replicas: when it is full, requests wait and are preempted")


def _draw_replicas(axes: Axes, timeline: Timeline) -> None:
    rounds = timeline.rounds
    times = [one.at for one in rounds]
    written = [one.desired for one in rounds]
    ready = [one.ready for one in rounds]
    axes.fill_between(times, ready, step="post", color=READY, alpha=0.30, linewidth=0)
    axes.step(times, ready, where="post", color=READY, linewidth=1.4, label="ready")
    axes.step(times, written, where="post", color=WANTED, linewidth=2.2, label="decided")
    axes.step(
        times, [one.wanted for one in rounds], where="post",
        color=GREY, linewidth=1.1, linestyle=(0, (2, 1.5)), label="wanted by the bounds",
    )  # fmt: skip
    axes.axhline(timeline.limit, color=GREY, linestyle=(0, (4, 3)), linewidth=1)
    axes.text(
        rounds[-1].at, timeline.limit + 0.1, f"{timeline.limit} GPUs", ha="right", va="bottom",
        color=GREY,
    )  # fmt: skip
    moves = Moves.of(rounds)
    _mark_all(
        axes, moves.out, OUT, "scale out, by the binding bound (KV: cache memory)", above=True
    )
    _mark_all(axes, moves.back, BACK, "scale in, proven to fit on one less", above=False)
    axes.set_ylim(0, timeline.limit + 2.2)
    axes.yaxis.set_major_locator(MultipleLocator(2))
    axes.set_ylabel("replicas")
    axes.legend(loc="upper left", frameon=False, ncols=5, handlelength=1.6, columnspacing=1.4)
    _name(axes, "Replicas: what the KV cache asks for, what was decided and why, what is ready")


def _mark_all(axes: Axes, moves: Sequence[Round], color: str, label: str, *, above: bool) -> None:
    """Decisions of one direction: the counts, and the bound that asked for more."""
    times, counts = [one.at for one in moves], [one.write or 0 for one in moves]
    axes.plot(
        times, counts, "^" if above else "v", color=color, markersize=8, zorder=5,
        linestyle="none", label=label,
    )  # fmt: skip
    for one, count in zip(moves, counts, strict=True):
        axes.annotate(
            f"{one.bound} {one.current}→{count}" if above else f"{one.current}→{count}",
            (one.at, count),
            xytext=(-6, 6) if above else (6, 3),
            textcoords="offset points",
            ha="right" if above else "left",
            va="bottom",
            fontsize=8.5,
            color=color,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _draw_time(axes: Axes, timeline: Timeline) -> None:
    axes.set_xlim(0, timeline.rounds[-1].at)
    axes.xaxis.set_major_locator(MultipleLocator(120))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: clock(seconds)))
    axes.set_xlabel("time on the demo's clock, minutes")
