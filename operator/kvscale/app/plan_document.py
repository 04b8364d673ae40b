"""A plan as a document for scripts. Its keys are a contract."""

from kvscale.app.documents import (
    Document,
    band_document,
    refusal_document,
    trace_document,
)
from kvscale.app.plan import Plan
from kvscale.app.plan_cost import PlanCost
from kvscale.app.plan_cost_document import cost_document, lever_document
from kvscale.core.planning.floor import Floor
from kvscale.core.planning.overflow_plan import OverflowPlan
from kvscale.core.planning.overflow_steps import OverflowCount
from kvscale.core.planning.policies import Policies
from kvscale.core.refusal import Refusal
from kvscale.core.trace import Trace
from kvscale.core.traffic.residency import significant
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
    "planning",
    "policies",
    "decode",
    "cost",
    "costUnknown",
    "levers",
    "dearLevers",
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
                "runPerReplica": one.runs(plan.capacity.max_num_seqs) * plan.engines_per_replica,
            }
            for one in plan.ceilings
        ],
        "headroom": None if plan.headroom is None else band_document(plan.headroom),
        "floor": _floor_document(floor) if isinstance(floor, Floor) else None,
        "floorUnknown": _unknown_document(floor) if isinstance(floor, Unknown) else None,
        "planning": _planning_document(plan),
        "policies": _policies_document(plan.policies),
        "decode": _decode_document(plan),
        "cost": cost_document(plan.cost) if isinstance(plan.cost, PlanCost) else None,
        "costUnknown": _unknown_document(plan.cost) if isinstance(plan.cost, Unknown) else None,
        "levers": [lever_document(lever) for lever in plan.levers.worth],
        "dearLevers": [lever_document(lever) for lever in plan.levers.dear],
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


def _planning_document(plan: Plan) -> Document:
    """Both modes, and which of them sizes the pool."""
    return {
        "mode": plan.spec.planning_mode.value,
        "percentile": plan.spec.percentile,
        "overflowPerMillion": plan.spec.overflow_per_million,
        "modes": {
            mode.value: {
                "atMean": floor.at_mean if isinstance(floor, Floor) else None,
                "atPeak": floor.at_peak if isinstance(floor, Floor) else None,
                "unknown": _unknown_document(floor) if isinstance(floor, Unknown) else None,
                "overflow": _overflow_document(floor.overflow)
                if isinstance(floor, Floor) and floor.overflow is not None
                else None,
            }
            for mode, floor in plan.floors.items()
        },
    }


def _overflow_document(found: OverflowPlan) -> Document:
    return {
        "rareRequestTokens": found.rare_tokens,
        "tailShareOfCache": round(found.tail_share, 4),
        "mean": None if found.at_mean is None else _count_document(found.at_mean),
        "peak": None if found.at_peak is None else _count_document(found.at_peak),
    }


def _count_document(count: OverflowCount) -> Document:
    return {
        "replicas": count.replicas,
        "probability": significant(count.probability),
        "probabilityOfOneLess": significant(count.probability_of_one_less),
        "residentsPerEngine": round(count.residents, 2),
        "blocksExpected": round(count.blocks.mean, 1),
        "blocksStandardDeviation": round(count.blocks.deviation, 1),
    }


def _unknown_document(unknown: Unknown) -> Document:
    return {"reason": unknown.reason, "message": unknown.message}


def whole_trace(plan: Plan) -> Trace:
    """Every step from the device's memory to the replicas."""
    floor = plan.floor.trace if isinstance(plan.floor, Floor) else ()
    cost = plan.cost.trace if isinstance(plan.cost, PlanCost) else ()
    return (*plan.capacity.trace, *plan.policies.trace, *floor, *cost)


def _policies_document(found: Policies) -> Document:
    return {
        "tokens": found.tokens,
        "sharedPrefixTokens": found.shared_tokens,
        "allocations": [
            {
                "policy": one.policy.value,
                "reservedTokens": one.reserved_tokens,
                "sequencesPerEngine": band_document(one.sequences),
                "wastedBytesPerSequence": one.wasted_bytes,
                "usedShareMilli": one.used_share_milli,
            }
            for one in found.allocations
        ],
    }


def _decode_document(plan: Plan) -> Document | None:
    if isinstance(plan.decode, Unknown):
        return None
    return {
        "residentTokens": round(plan.decode.resident_tokens, 1),
        "crossoverBatch": plan.crossover,
    }
