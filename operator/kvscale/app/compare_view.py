"""A comparison as a document for scripts and as a page for people."""

from collections.abc import Sequence

from kvscale.app.comparison import Comparison, Option, Row, Unfit
from kvscale.app.documents import Document, band_document, refusal_document
from kvscale.app.plan import Plan
from kvscale.app.plan_cost import PlanCost
from kvscale.app.plan_cost_document import money, price_document
from kvscale.app.plan_cost_view import money as money_text
from kvscale.app.tables import facts, notes, number, short_name, table
from kvscale.core.planning.ceilings import LengthCeiling

KEYS = ("pool", "currency", "rate", "costAt", "options", "mayNotFit", "unfit")


def compare_document(found: Comparison) -> Document:
    """The comparison for a script: every key is always there."""
    return {
        "pool": found.name,
        "currency": found.currency or None,
        "rate": found.rate or None,
        "costAt": f"{found.rate}Rate" if found.rate else "ceiling",
        "options": [_row_document(row) for row in found.rows],
        "mayNotFit": [_doubt_document(one) for one in found.doubtful],
        "unfit": [
            {**_option_document(one.option), "refusal": refusal_document(one.refusal)}
            for one in found.unfit
        ],
    }


def _option_document(option: Option) -> Document:
    return {
        "gpu": option.gpu,
        "tensorParallel": option.tensor_parallel,
        "kvCacheDtype": option.kv_cache_dtype,
    }


def _doubt_document(one: Unfit) -> Document:
    document = {**_option_document(one.option), "refusal": refusal_document(one.refusal)}
    if one.plan is None:
        return document
    ceiling = planned_ceiling(one.plan)
    return {
        **document,
        "length": ceiling.name,
        "sequencesPerReplica": band_document(ceiling.per_replica),
    }


def _row_document(row: Row) -> Document:
    ceiling, cost = planned_ceiling(row.plan), row.plan.cost
    return {
        **_option_document(row.option),
        "tensorParallel": row.plan.engine.tensor_parallel,
        "kvCacheDtype": row.plan.engine.kv_cache_dtype,
        "devicesPerReplica": row.plan.devices_per_replica,
        "length": ceiling.name,
        "sequencesPerReplica": band_document(ceiling.per_replica),
        "runPerReplica": _running(row.plan),
        "rate": row.rate or None,
        "replicas": row.replicas,
        "replicasAtPeak": row.at_peak,
        "devices": row.devices,
        "millisecondsPerOutputToken": None
        if row.milliseconds_per_token is None
        else round(row.milliseconds_per_token, 2),
        "perHour": None if row.micros_per_hour is None else money(row.micros_per_hour),
        "perMillionOutputTokens": None
        if row.micros_per_million is None
        else money(row.micros_per_million),
        "perHourAtPeak": None
        if row.peak_micros_per_hour is None
        else money(row.peak_micros_per_hour),
        "price": price_document(cost.price) if isinstance(cost, PlanCost) else None,
        "note": row.note,
    }


def planned_ceiling(plan: Plan) -> LengthCeiling:
    """The ceiling at the planning percentile, or at the maximum length without traffic."""
    name = f"p{plan.spec.percentile}"
    found = [one for one in plan.ceilings if one.name == name]
    return found[0] if found else plan.ceilings[-1]


def _running(plan: Plan) -> int:
    """Sequences of that length that a replica holds and runs, expected."""
    return planned_ceiling(plan).runs(plan.capacity.max_num_seqs) * plan.engines_per_replica


def label(row: Row) -> str:
    """A short name of the option, for a table or a picture."""
    engine = row.plan.engine
    parts = [short_name(row.option.gpu)]
    if engine.tensor_parallel > 1:
        parts.append(f"TP{engine.tensor_parallel}")
    if engine.kv_cache_dtype != "auto":
        parts.append(engine.kv_cache_dtype)
    return " ".join(parts)


def compare_page(found: Comparison) -> list[str]:
    """The comparison for a person."""
    lines = [f"InferencePool {found.name} on other devices", ""]
    headers = ["device", "TP", "KV", "sequences"]
    headers += ["ms/token", "replicas", "peak"] if found.rate else []
    headers.append("devices")
    if found.currency:
        at = found.rate or "ceiling"
        headers += [f"{found.currency}/hour", f"{found.currency}/million, {at}"]
    if found.rows:
        lines += table(headers, [_cells(row, found) for row in found.rows])
        lines += ["", *facts(_legend(found))]
    else:
        lines.append("nothing fits for certain" if found.doubtful else "nothing fits")
    lines += notes("Prices", _prices(found.rows))
    lines += notes("Notes", dict.fromkeys(row.note for row in found.rows if row.note))
    lines += notes("What may not fit: not ranked", _reasons(found.doubtful))
    lines += notes("What does not fit", _reasons(found.unfit))
    return lines


def _reasons(found: Sequence[Unfit]) -> list[str]:
    """A sentence for each reason, with all options that have it."""
    by_message: dict[str, list[str]] = {}
    for one in found:
        by_message.setdefault(one.refusal.message, []).append(_named(one.option))
    return [f"{'; '.join(names)}: {message}" for message, names in by_message.items()]


def _cells(row: Row, found: Comparison) -> list[str]:
    engine = row.plan.engine
    step = row.milliseconds_per_token
    cells = [
        short_name(row.option.gpu),
        number(engine.tensor_parallel),
        engine.kv_cache_dtype,
        number(_running(row.plan)),
    ]
    if found.rate:
        cells += [
            "-" if step is None else f"{step:,.1f}",
            "-" if row.replicas is None else number(row.replicas),
            "-" if row.at_peak is None else number(row.at_peak),
        ]
    cells.append(number(row.devices))
    if found.currency:
        cells += [
            "-" if micros is None else money_text(micros)
            for micros in (row.micros_per_hour, row.micros_per_million)
        ]
    return cells


def _legend(found: Comparison) -> list[tuple[str, str]]:
    lengths = sorted({planned_ceiling(row.plan).name for row in found.rows})
    shown = ", ".join(f"{'the maximum' if name == 'max' else name} length" for name in lengths)
    per_million = (
        f"of output tokens at the {found.rate} rate"
        if found.rate
        else "of output tokens with every sequence that fits running"
    )
    by = f"{found.currency}/{'hour' if found.rate else 'million'}"
    return [
        ("sequences", f"of {shown}, that one replica holds and runs (expected)"),
        ("rate", found.unknown and f"none: {found.unknown}" if not found.rate else ""),
        (
            "replicas, devices, cost" if found.rate else "devices, cost per hour",
            f"at the {found.rate} rate; - is not known" if found.rate else "of one replica",
        ),
        (f"{found.currency}/million", per_million if found.currency else ""),
        ("peak", "replicas at the declared peak rate" if _has_peak(found) else ""),
        ("sorted by", by if found.currency else "devices: no price is known"),
    ]


def _has_peak(found: Comparison) -> bool:
    return any(row.at_peak is not None for row in found.rows)


def _prices(rows: Sequence[Row]) -> list[str]:
    """A sentence for each price, with all replicas that have it."""
    by_text: dict[str, dict[str, None]] = {}
    for row in rows:
        cost, count = row.plan.cost, row.plan.devices_per_replica
        if isinstance(cost, PlanCost):
            shown = f"{count} x {short_name(row.option.gpu)}"
            by_text.setdefault(cost.price.described, {})[shown] = None
    return [f"{', '.join(names)}: {text}" for text, names in by_text.items()]


def _named(option: Option) -> str:
    parts = [short_name(option.gpu)]
    if option.tensor_parallel is not None:
        parts.append(f"TP {option.tensor_parallel}")
    if option.kv_cache_dtype is not None:
        parts.append(option.kv_cache_dtype)
    return ", ".join(parts)
