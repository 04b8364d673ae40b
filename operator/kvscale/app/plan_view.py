"""A plan as a page for people."""

from kvscale.app.capacity_facts import capacity_facts
from kvscale.app.plan import Plan
from kvscale.app.plan_cost_view import cost_lines, lever_lines, policy_lines
from kvscale.app.plan_document import whole_trace
from kvscale.app.plan_modes_view import mode_lines
from kvscale.app.tables import band, facts, notes, number, size, table, trace_lines
from kvscale.core.planning.floor import Floor
from kvscale.core.trace import counted
from kvscale.core.traffic.declared import Traffic
from kvscale.core.values import Unknown


def plan_page(plan: Plan) -> list[str]:
    """The plan for a person, at most `tables.WIDTH` characters wide."""
    lines = [f"InferencePool {plan.name}", "", *facts(_subject(plan))]
    lines += ["", "Capacity of one engine", *facts(capacity_facts(plan.capacity))]
    lines += ["", _ceiling_title(plan)]
    lines += table(
        ("length", "tokens", "blocks", "low", "expected", "high", "replica", "replica runs"),
        [
            (
                one.name,
                number(one.tokens),
                number(one.blocks),
                number(one.per_engine.low),
                number(one.per_engine.expected),
                number(one.per_engine.high),
                number(one.per_replica.expected),
                number(one.runs(plan.capacity.max_num_seqs) * plan.engines_per_replica),
            )
            for one in plan.ceilings
        ],
    )
    if plan.headroom is not None:
        percentile = plan.spec.percentile
        lines.append(
            f"headroom by KV memory (mean less p{percentile}): {band(plan.headroom)} sequences per "
            "replica"
        )
    lines += ["", *policy_lines(plan)]
    lines += ["", "Replicas for the declared traffic", *_floor_lines(plan)]
    lines += ["", *cost_lines(plan)]
    lines += lever_lines(plan.levers, "What to change instead of scaling", currency_of(plan))
    lines += notes("Warnings", plan.warnings)
    lines += notes("Assumptions", plan.assumptions)
    return [*lines, "", "How", *trace_lines(whole_trace(plan))]


def _subject(plan: Plan) -> list[tuple[str, str]]:
    engine, device = plan.engine, plan.device
    count = plan.devices_per_replica
    parallel = (
        f"{counted(plan.engines_per_replica, 'engine')} of "
        f"tensor {engine.tensor_parallel} x pipeline {engine.pipeline_parallel}"
    )
    return [
        ("model", f"{plan.shape.name} ({plan.shape.parameters / 1e9:.2f} B parameters)"),
        ("engine", f"{engine.kind.value} {engine.version or '(version not stated)'}"),
        ("devices", f"{count} x {device.product}, {size(device.memory_bytes)} each, per replica"),
        ("parallelism", parallel if count > 1 else ""),
    ]


def _ceiling_title(plan: Plan) -> str:
    return (
        "Ceiling: resident sequences of one engine by KV memory, if all have that length "
        f"({number(plan.capacity.max_num_seqs)} run at most)"
    )


def _floor_lines(plan: Plan) -> list[str]:
    floor, traffic = plan.floor, plan.spec.traffic
    if isinstance(floor, Unknown) or traffic is None:
        return facts([("not known", floor.message if isinstance(floor, Unknown) else "")])
    service = (
        f"serves {number(floor.requests_per_minute_milli / 1000)} requests/min; "
        f"a request stays {floor.residence_seconds:,.1f} s"
    )
    rates = [
        (name, number(rate), number(replicas), number(replicas * plan.devices_per_replica))
        for name, rate, replicas in _rates(floor, traffic)
    ]
    return [
        *table(("rate", "requests/min", "replicas", "devices"), rates),
        *facts(
            [
                ("planned for", _budget(plan, floor)),
                ("limited by", _BOUNDS[floor.bound]),
                ("one replica", service),
            ]
        ),
        *mode_lines(plan),
    ]


def _budget(plan: Plan, floor: Floor) -> str:
    if floor.overflow is not None:
        return (
            "the sum of an engine's requests, above its low capacity at most "
            f"{plan.spec.overflow_per_million / 10_000:g} % of the time"
        )
    return (
        f"p{plan.spec.percentile} of prompt + output, {number(floor.footprint_tokens)} tokens, on "
        f"the low capacity at {plan.spec.scaling.target_occupancy_percent} % occupancy"
    )


_BOUNDS = {
    "KV": "KV-cache memory",
    "Sequences": "the largest batch (--max-num-seqs)",
    "Prefill": "the time that prompts take",
}


def _rates(floor: Floor, traffic: Traffic) -> list[tuple[str, int, int]]:
    rates = [
        ("mean", traffic.mean_per_minute, floor.at_mean),
        ("peak", traffic.peak_per_minute, floor.at_peak),
    ]
    return [
        (name, rate, replicas)
        for name, rate, replicas in rates
        if rate is not None and replicas is not None
    ]


def currency_of(plan: Plan) -> str:
    """The currency of the plan's costs; "" where none is known."""
    return "" if isinstance(plan.cost, Unknown) else plan.cost.price.currency
