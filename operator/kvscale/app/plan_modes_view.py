"""The part of a plan's page that sets both planning modes side by side."""

from kvscale.app.plan import Plan
from kvscale.app.tables import facts, number, table
from kvscale.core.planning.floor import Floor
from kvscale.core.planning.overflow_plan import OverflowPlan
from kvscale.core.planning.overflow_steps import OverflowCount
from kvscale.core.spec import PlanningMode
from kvscale.core.values import Unknown

LEAST_SHOWN = 1e-6
"""A smaller probability is not told from none."""


def mode_lines(plan: Plan) -> list[str]:
    """Replicas by either mode, with how often an engine's memory would not do."""
    rows = [
        (name, number(at_mean), number(at_peak))
        for name, at_mean, at_peak in (
            (_mode_name(plan, mode), _count(floor, "mean"), _count(floor, "peak"))
            for mode, floor in plan.floors.items()
        )
    ]
    lines = ["", *table(("by planning mode, replicas at", "mean", "peak"), rows)]
    unknown = [
        (f"{mode.value} not known", floor.message)
        for mode, floor in plan.floors.items()
        if isinstance(floor, Unknown)
    ]
    risk = _overflow(plan)
    if risk is None:
        return lines + facts(unknown)
    counts = [("mean", risk.at_mean), ("peak", risk.at_peak)]
    tail = f"requests longer than p95 hold {risk.tail_share:.0%} of the cache's time"
    return lines + facts(
        [
            *((f"overflow at {name}", _risk(one)) for name, one in counts if one is not None),
            ("tail", tail),
            *unknown,
        ]
    )


def _overflow(plan: Plan) -> OverflowPlan | None:
    found = plan.floors.get(PlanningMode.OVERFLOW_PROBABILITY)
    return found.overflow if isinstance(found, Floor) else None


def _mode_name(plan: Plan, mode: PlanningMode) -> str:
    chosen = " (in effect)" if mode is plan.spec.planning_mode else ""
    budget = (
        f"p{plan.spec.percentile}"
        if mode is PlanningMode.PERCENTILE
        else f"{plan.spec.overflow_per_million:,} in a million"
    )
    return f"{mode.value}, {budget}{chosen}"


def _count(floor: Floor | Unknown, rate: str) -> int | str:
    found = None
    if isinstance(floor, Floor):
        found = floor.at_mean if rate == "mean" else floor.at_peak
    return "-" if found is None else found


def _risk(count: OverflowCount) -> str:
    blocks = count.blocks
    less = (
        "one less is none"
        if count.replicas == 1
        else f"{_percent(count.probability_of_one_less)} with one less"
    )
    return (
        f"{_percent(count.probability)} of the time with {count.replicas}, {less}; "
        "an engine's requests hold "
        f"{number(round(blocks.mean))} blocks, standard deviation {number(round(blocks.deviation))}"
    )


def _percent(share: float) -> str:
    if share < LEAST_SHOWN:
        return f"under {100 * LEAST_SHOWN:g} %"
    rounded = float(f"{100 * share:.2g}")  # two digits, and not as 1e+02
    return f"{rounded:f}".rstrip("0").rstrip(".") + " %"
