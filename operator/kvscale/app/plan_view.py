"""A plan as a document for scripts and as a page for people. The document's keys are a contract."""

from kvscale.app.capacity import (
    Document,
    band_document,
    capacity_facts,
    refusal_document,
    trace_document,
)
from kvscale.app.plan import Plan
from kvscale.app.tables import band, facts, notes, number, size, table, trace_lines
from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.spec import Traffic
from kvscale.core.trace import Trace
from kvscale.core.traffic.floor import Floor
from kvscale.core.values import Unknown

KEYS = (
    "pool",
    "model",
    "engine",
    "device",
    "capacity",
    "ceilings",
    "headroom",
    "floor",
    "floorUnknown",
    "warnings",
    "assumptions",
    "refusal",
    "trace",
)


def plan_document(plan: Plan | Refusal) -> Document:
    """The plan for a script: every key is always there, null where there is nothing."""
    if isinstance(plan, Refusal):
        return {**dict.fromkeys(KEYS), "refusal": refusal_document(plan)}
    capacity, floor = plan.capacity, plan.floor
    return {
        "pool": plan.name,
        "model": plan.shape.name,
        "engine": {
            "kind": plan.engine.kind.value,
            "version": plan.engine.version,
            "tensorParallel": plan.engine.tensor_parallel,
            "pipelineParallel": plan.engine.pipeline_parallel,
            "maxModelLen": capacity.max_model_len,
            "maxNumSeqs": capacity.max_num_seqs,
            "maxNumBatchedTokens": capacity.max_num_batched_tokens,
            "enginesPerReplica": plan.engines_per_replica,
        },
        "device": {
            "product": plan.device.product,
            "memoryBytes": plan.device.memory_bytes,
            "perReplica": plan.devices_per_replica,
        },
        "capacity": {
            "weightBytesPerDevice": capacity.weight_bytes_per_device,
            "kvMemoryBytes": band_document(capacity.kv_memory_bytes),
            "blockTokens": capacity.block_tokens,
            "bytesPerBlock": capacity.bytes_per_block,
            "kvBlocks": band_document(capacity.kv_blocks),
            "usableBlocks": band_document(capacity.usable_blocks),
            "kvCacheSizeTokens": band_document(capacity.kv_cache_size_tokens),
        },
        "ceilings": [
            {
                "length": one.name,
                "tokens": one.tokens,
                "blocks": one.blocks,
                "perEngine": band_document(one.per_engine),
                "perReplica": band_document(one.per_replica),
            }
            for one in plan.ceilings
        ],
        "headroom": None if plan.headroom is None else band_document(plan.headroom),
        "floor": _floor_document(floor) if isinstance(floor, Floor) else None,
        "floorUnknown": _unknown_document(floor) if isinstance(floor, Unknown) else None,
        "warnings": list(plan.warnings),
        "assumptions": list(plan.assumptions),
        "refusal": None,
        "trace": trace_document(whole_trace(plan)),
    }


def _floor_document(floor: Floor) -> Document:
    return {
        "atMean": floor.at_mean,
        "atPeak": floor.at_peak,
        "bound": floor.bound,
        "footprintTokens": floor.footprint_tokens,
        "footprintBlocks": floor.footprint_blocks,
        "plannedBatch": floor.planned_batch_milli / 1000,
        "residenceSeconds": round(floor.residence_seconds, 3),
        "requestsPerMinutePerReplica": floor.requests_per_minute_milli / 1000,
    }


def _unknown_document(unknown: Unknown) -> Document:
    return {"reason": unknown.reason, "message": unknown.message}


def whole_trace(plan: Plan) -> Trace:
    """Every step from the device's memory to the replicas."""
    floor = plan.floor.trace if isinstance(plan.floor, Floor) else ()
    return (*plan.capacity.trace, *floor)


def plan_page(plan: Plan) -> list[str]:
    """The plan for a person, at most `tables.WIDTH` characters wide."""
    lines = [f"InferencePool {plan.name}", "", *facts(_subject(plan))]
    lines += ["", "Capacity of one engine", *facts(capacity_facts(plan.capacity))]
    lines += ["", _ceiling_title(plan)]
    lines += table(
        ("length", "tokens", "blocks", "low", "expected", "high", "replica, expected"),
        [
            (
                one.name,
                number(one.tokens),
                number(one.blocks),
                number(one.per_engine.low),
                number(one.per_engine.expected),
                number(one.per_engine.high),
                number(one.per_replica.expected),
            )
            for one in plan.ceilings
        ],
    )
    if plan.headroom is not None:
        percentile = plan.spec.percentile
        lines.append(
            f"headroom (mean less p{percentile}): {band(plan.headroom)} sequences per replica"
        )
    lines += ["", "Replicas for the declared traffic", *_floor_lines(plan)]
    lines += notes("Warnings", plan.warnings)
    lines += notes("Assumptions", plan.assumptions)
    return [*lines, "", "How", *trace_lines(whole_trace(plan))]


def _subject(plan: Plan) -> list[tuple[str, str]]:
    engine, device = plan.engine, plan.device
    count = plan.devices_per_replica
    parallel = (
        f"{plan.engines_per_replica} engines of "
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
    footprint = (
        f"p{plan.spec.percentile} of prompt + output, {number(floor.footprint_tokens)} tokens, on "
        f"the low capacity at {plan.spec.scaling.target_occupancy_percent} % occupancy"
    )
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
                ("planned for", footprint),
                ("limited by", _BOUNDS[floor.bound]),
                ("one replica", service),
            ]
        ),
    ]


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
