"""What to change instead of scaling, for a pool in a cluster."""

from collections.abc import Mapping
from typing import Any

from kvscale.api.parse import parse_pool
from kvscale.app.plan import Plan, plan
from kvscale.app.plan_cost_view import lever_lines
from kvscale.app.plan_view import currency_of
from kvscale.app.tables import facts
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.refusal import Refusal
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

TITLE = "What to change instead of scaling"


def advice_lines(
    name: str,
    pool: Mapping[str, Any],
    workload: WorkloadRecord | Unknown,
    config_map: Mapping[str, str] | Unknown | None,
) -> list[str]:
    """The levers of a pool, or why there are none.

    Args:
        name: of the pool.
        pool: the InferencePool, raw.
        workload: that it scales.
        config_map: data of the ConfigMap that its spec names; None when it names none.
    """
    if isinstance(workload, Unknown):
        return ["", TITLE, *facts([("not known", workload.message)])]
    spec = parse_pool(pool.get("spec") or {})
    if isinstance(spec, Unknown):
        return ["", TITLE, *facts([("not known", spec.message)])]
    found = plan(
        name, spec, workload=workload, config_map=config_map, gpu=_product(pool.get("status") or {})
    )
    if isinstance(found, Refusal):
        return ["", TITLE, *facts([("not known", found.message)])]
    return lever_lines(found.levers, TITLE, currency_of(found)) or _nothing(found)


def _nothing(found: Plan) -> list[str]:
    engine = found.engine.kind.value
    return ["", TITLE, f"nothing: {engine} makes the most of {found.device.product} as it is"]


def _product(status: Mapping[str, Any]) -> str | None:
    """The device that the operator resolved, if the table has it (a plan looks at no nodes)."""
    effective = status.get("effective")
    device = effective.get("device") if isinstance(effective, Mapping) else None
    product = device.get("product") if isinstance(device, Mapping) else None
    known = isinstance(product, str) and isinstance(find_device(product), Device)
    return product if known else None
