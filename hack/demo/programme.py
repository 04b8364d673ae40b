"""What is said before the curtain rises: what is real, what is not, and what the plan promises."""

import textwrap
from statistics import fmean, quantiles

import yaml

from demo.engines import engine_settings
from demo.manifests import Objects
from demo.story import FACTOR, GPUS_PER_NODE, NODES, SHUTDOWN_SECONDS, STARTUP_SECONDS
from kvscale.app.tables import band, number
from kvscale.core.planning.ceilings import length_ceilings
from kvscale.sim.arrivals import Workload

WIDTH = 100
LABEL = 10


def programme(wanted: Objects, workload: Workload) -> list[str]:
    """The lines for a person."""
    lines = ["", "What is played"]
    for label, text in (
        ("time", _time()),
        ("nodes", _nodes(wanted)),
        ("model", _model(wanted)),
        ("ceiling", _ceiling(wanted, workload)),
        ("engines", _engines(wanted)),
        ("traffic", f"{len(workload.requests):,} requests of the {workload.label}"),
    ):
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent="  " + label.ljust(LABEL),
            subsequent_indent=" " * (LABEL + 2),
        )
    lines += ["", "The pool, as applied"]
    text = yaml.safe_dump(wanted.pool, sort_keys=False, default_flow_style=None, width=WIDTH)
    lines += [f"  {line}" for line in text.splitlines()]
    return [*lines, ""]


def _time() -> str:
    return (
        f"one clock for operator, engines and traffic, {FACTOR:g} times as fast as life. A replica "
        f"takes {STARTUP_SECONDS:g} s to load the model, and gets {SHUTDOWN_SECONDS:g} s to finish "
        "its requests before it goes"
    )


def _nodes(wanted: Objects) -> str:
    product = wanted.plan.device.product
    return f"{NODES} with {GPUS_PER_NODE} {product} each; their kubelets are simulated by kwok"


def _model(wanted: Objects) -> str:
    plan = wanted.plan
    return (
        f"{plan.shape.name} on vLLM {plan.engine.version}, {plan.devices_per_replica} GPU a "
        "replica; model, engine and GPU are read from the server's arguments and the nodes' labels"
    )


def _ceiling(wanted: Objects, workload: Workload) -> str:
    """What `kvscale plan` computes, at the lengths of the traffic."""
    capacity = wanted.plan.capacity
    totals = [one.prompt_tokens + one.output_tokens for one in workload.requests]
    named = (("mean", round(fmean(totals))), ("p95", round(quantiles(totals, n=20)[-1])))
    mean, high = length_ceilings(capacity, named, wanted.plan.engines_per_replica)
    return (
        f"kvscale plan: one replica's KV cache holds {band(capacity.kv_blocks)} blocks of "
        f"{capacity.block_tokens} tokens: {band(mean.per_replica)} requests of the traffic's mean "
        f"length ({number(mean.tokens)} tokens), {band(high.per_replica)} at its 95th percentile "
        f"({number(high.tokens)}). The engine may run {capacity.max_num_seqs} at once: the cache "
        "is full long before, so KV binds"
    )


def _engines(wanted: Objects) -> str:
    settings, planned = engine_settings(wanted.plan), wanted.plan.capacity.kv_blocks
    return (
        "simulated (vLLM's scheduler rules over a roofline of the GPU), with vLLM's own /metrics. "
        f"They have {number(settings.kv_blocks)} blocks; the plan's low end, {number(planned.low)},"
        " is what counts until the first engine reports its own number"
    )
