"""A comparison as a document for scripts and as a page for people."""

import re

from kvscale.app.capacity import Document, band_document, refusal_document
from kvscale.app.compare import Comparison, Option, Row
from kvscale.app.plan_cost import PlanCost
from kvscale.app.plan_cost_document import money, price_document
from kvscale.app.plan_cost_view import money as money_text
from kvscale.app.tables import facts, notes, number, table
from kvscale.core.capacity.planning import LengthCeiling

KEYS = ("pool", "currency", "options", "unfit")

_NOISE = re.compile(r"^(NVIDIA|AMD|Tesla)-|-Blackwell|-Server-Edition")


def compare_document(found: Comparison) -> Document:
    """The comparison for a script: every key is always there."""
    return {
        "pool": found.name,
        "currency": found.currency or None,
        "options": [_row_document(row) for row in found.rows],
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


def _row_document(row: Row) -> Document:
    ceiling, cost = planned_ceiling(row), row.plan.cost
    return {
        **_option_document(row.option),
        "tensorParallel": row.plan.engine.tensor_parallel,
        "kvCacheDtype": row.plan.engine.kv_cache_dtype,
        "devicesPerReplica": row.plan.devices_per_replica,
        "length": ceiling.name,
        "sequencesPerReplica": band_document(ceiling.per_replica),
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
        "price": price_document(cost.price) if isinstance(cost, PlanCost) else None,
        "note": row.note,
    }


def planned_ceiling(row: Row) -> LengthCeiling:
    """The ceiling at the planning percentile, or at the maximum length without traffic."""
    name = f"p{row.plan.spec.percentile}"
    found = [one for one in row.plan.ceilings if one.name == name]
    return found[0] if found else row.plan.ceilings[-1]


def label(row: Row) -> str:
    """A short name of the option, for a table or a picture."""
    engine = row.plan.engine
    parts = [short_name(row.option.gpu)]
    if engine.tensor_parallel > 1:
        parts.append(f"TP{engine.tensor_parallel}")
    if engine.kv_cache_dtype != "auto":
        parts.append(engine.kv_cache_dtype)
    return " ".join(parts)


def short_name(product: str) -> str:
    """The product without its vendor and what no other product differs by."""
    return _NOISE.sub("", product)


def compare_page(found: Comparison) -> list[str]:
    """The comparison for a person."""
    lines = [f"InferencePool {found.name} on other devices", ""]
    rates = {row.rate for row in found.rows if row.rate}
    headers = ["device", "TP", "KV", "sequences", "ms/token", "replicas", "peak", "devices"]
    if found.currency:
        headers += [f"{found.currency}/hour", f"{found.currency}/million"]
    if found.rows:
        lines += table(headers, [_cells(row, costs=bool(found.currency)) for row in found.rows])
    else:
        lines.append("nothing fits")
    lengths = {planned_ceiling(row).name for row in found.rows}
    lines += ["", *facts(_legend(found, rates, lengths))]
    lines += notes("Prices", dict.fromkeys(_price(row) for row in found.rows if _price(row)))
    lines += notes("Notes", dict.fromkeys(row.note for row in found.rows if row.note))
    lines += notes(
        "What does not fit",
        [f"{_named(one.option)}: {one.refusal.message}" for one in found.unfit],
    )
    return lines


def _cells(row: Row, *, costs: bool) -> list[str]:
    engine = row.plan.engine
    step = row.milliseconds_per_token
    cells = [
        short_name(row.option.gpu),
        number(engine.tensor_parallel),
        engine.kv_cache_dtype,
        number(planned_ceiling(row).per_replica.expected),
        "-" if step is None else f"{step:,.1f}",
        "-" if row.replicas is None else number(row.replicas),
        "-" if row.at_peak is None else number(row.at_peak),
        number(row.devices),
    ]
    if costs:
        cells += [
            "-" if micros is None else money_text(micros)
            for micros in (row.micros_per_hour, row.micros_per_million)
        ]
    return cells


def _legend(found: Comparison, rates: set[str], lengths: set[str]) -> list[tuple[str, str]]:
    rate = (
        f"at the {rates.pop()} rate"
        if len(rates) == 1
        else "of one replica: no traffic is declared"
    )
    return [
        (
            "sequences",
            f"of length {', '.join(sorted(lengths))}, resident in one replica: expected, by memory",
        ),
        ("replicas, devices, cost", rate),
        ("peak", "replicas at the declared peak rate" if _has_peak(found) else ""),
        (
            "sorted by",
            f"cost in {found.currency}" if found.currency else "devices: no price is known",
        ),
    ]


def _has_peak(found: Comparison) -> bool:
    return any(row.at_peak is not None for row in found.rows)


def _price(row: Row) -> str:
    cost = row.plan.cost
    if not isinstance(cost, PlanCost):
        return ""
    return f"{short_name(row.option.gpu)}: {cost.price.described}"


def _named(option: Option) -> str:
    parts = [short_name(option.gpu)]
    if option.tensor_parallel is not None:
        parts.append(f"TP {option.tensor_parallel}")
    if option.kv_cache_dtype is not None:
        parts.append(option.kv_cache_dtype)
    return ", ".join(parts)
