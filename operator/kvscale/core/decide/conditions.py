"""The conditions of a pool: what kubectl wait and alerts read.

All are set on every visit (Unknown is legal), adjectives or past participles; `Ready` sums up.
"""

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide import reasons
from kvscale.core.decide.arrivals import tokens_per_minute
from kvscale.core.decide.assessment import Assessment, NotAssessed
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.decision import Condition, Counts, Status
from kvscale.core.decide.limits import Limited
from kvscale.core.refusal import Refusal
from kvscale.core.spec import Mode
from kvscale.core.values import Unknown

CONDITION_TYPES = (
    "Ready",
    "TargetResolved",
    "CapacityKnown",
    "MetricsAvailable",
    "CeilingVerified",
    "TrafficAsDeclared",
    "ScalingLimited",
    "Stalled",
)
"""Every condition of a pool, in the order in which they are shown."""

AGREEMENT = 0.05
"""Computed and reported blocks agree when they differ by no more than this share, band included."""

ABOVE_DECLARED = 1.25
"""Observed prompt tokens may exceed the declared peak by a quarter before it is called wrong."""


def not_assessed(found: NotAssessed) -> tuple[Condition, ...]:
    """Conditions of a pool of which nothing can be concluded."""
    resolved = Status.UNKNOWN if found.reason == reasons.INVALID_SPEC else Status.FALSE
    told = {
        "Ready": Condition("Ready", Status.FALSE, found.reason, found.message),
        "TargetResolved": Condition("TargetResolved", resolved, found.reason, found.message),
        "Stalled": Condition("Stalled", Status.TRUE, found.reason, found.message),
    }
    return tuple(
        told.get(name, Condition(name, Status.UNKNOWN, found.reason, "nothing is known yet"))
        for name in CONDITION_TYPES
    )


def conditions(found: Assessment, counts: Counts, limited: Limited) -> tuple[Condition, ...]:
    """Conditions of a pool that was decided."""
    return (
        _ready(found),
        Condition(
            "TargetResolved",
            Status.TRUE,
            reasons.RESOLVED,
            f"{found.target.kind}/{found.target.name}",
        ),
        _capacity_known(found),
        _metrics_available(found),
        _ceiling_verified(found),
        _traffic_as_declared(found),
        _scaling_limited(counts, limited),
        _stalled(found),
    )


def _ready(found: Assessment) -> Condition:
    if found.conflict is not None:
        return Condition("Ready", Status.FALSE, found.conflict.reason, found.conflict.message)
    if isinstance(found.blocks, Unknown):
        told = found.blocks.message or "neither the arithmetic nor the engines give a ceiling"
        return Condition("Ready", Status.FALSE, found.blocks.reason, told)
    if isinstance(found.capacity, Refusal):
        # The engines run all the same and report their blocks, so the loop is sound; the
        # refusal stands in CapacityKnown.
        return Condition("Ready", Status.TRUE, reasons.REPORTED, "sized by the engines' own blocks")
    if found.memory.write_error:
        return Condition("Ready", Status.FALSE, reasons.WRITE_FAILED, found.memory.write_error)
    if found.pool.annotation_error:
        told = f"decided and applied; ignored: {found.pool.annotation_error}"
        return Condition("Ready", Status.TRUE, reasons.DECIDED, told)
    return Condition("Ready", Status.TRUE, reasons.DECIDED, "decided and applied")


def _capacity_known(found: Assessment) -> Condition:
    name = "CapacityKnown"
    capacity, blocks = found.capacity, found.blocks
    contradictions = "; ".join(found.pool.contradictions)
    if isinstance(blocks, EngineBlocks) and blocks.reported is not None:
        told = f"{blocks.reported:,} usable blocks an engine, by its own count"
        return Condition(name, Status.TRUE, reasons.REPORTED, _with(told, contradictions))
    if isinstance(capacity, EngineCapacity):
        band = capacity.usable_blocks
        told = f"{band.low:,} to {band.high:,} usable blocks an engine, computed"
        return Condition(name, Status.TRUE, reasons.COMPUTED, _with(told, contradictions))
    if isinstance(capacity, Refusal):
        told = f"{capacity.field}: {capacity.message}"
        return Condition(name, Status.FALSE, capacity.reason, _with(told, contradictions))
    return Condition(name, Status.FALSE, capacity.reason, _with(capacity.message, contradictions))


def _with(told: str, more: str) -> str:
    return f"{told}; {more}" if more else told


def _metrics_available(found: Assessment) -> Condition:
    name = "MetricsAvailable"
    if isinstance(found.load, Unknown):
        waiting = found.load.reason == reasons.NO_READY_PODS
        status = Status.UNKNOWN if waiting else Status.FALSE
        return Condition(name, status, found.load.reason, found.load.message)
    missing = found.load.demand.missing_pods
    if missing:
        told = f"no fresh sample of {len(missing)} pods: {', '.join(missing[:5])}"
        return Condition(name, Status.TRUE, reasons.NO_SAMPLES, told)
    return Condition(name, Status.TRUE, reasons.FRESH, "every serving pod has a fresh sample")


def _ceiling_verified(found: Assessment) -> Condition:
    name = "CeilingVerified"
    capacity, blocks = found.capacity, found.blocks
    if isinstance(blocks, Unknown) or blocks.reported is None:
        return Condition(name, Status.UNKNOWN, reasons.NOT_REPORTED, "no engine reports its blocks")
    if not isinstance(capacity, EngineCapacity):
        told = f"the engines report {blocks.reported:,} usable blocks; nothing to compare with"
        return Condition(name, Status.UNKNOWN, reasons.NOT_MEASURED, told)
    band = capacity.usable_blocks
    ratio = blocks.reported / band.expected if band.expected else 0.0
    told = (
        f"engine {blocks.reported:,} / computed {band.expected:,} "
        f"({band.low:,} to {band.high:,}) = {ratio:.3f}"
    )
    if band.low * (1 - AGREEMENT) <= blocks.reported <= band.high * (1 + AGREEMENT):
        return Condition(name, Status.TRUE, reasons.ENGINE_AGREES, told)
    return Condition(name, Status.FALSE, reasons.ENGINE_DIFFERS, told)


def _traffic_as_declared(found: Assessment) -> Condition:
    name = "TrafficAsDeclared"
    traffic, declared = found.spec.traffic, found.declared
    if declared.problem is not None:
        return Condition(name, Status.FALSE, declared.problem.reason, declared.problem.message)
    if traffic is None:
        return Condition(name, Status.UNKNOWN, reasons.NOT_DECLARED, "spec.traffic is not set")
    peak = traffic.peak_per_minute or traffic.mean_per_minute
    seen = tokens_per_minute(found.memory.load)
    if declared.mean_prompt_tokens is None or peak is None:
        told = "spec.traffic lacks requestsPerMinute or promptTokens"
        return Condition(name, Status.UNKNOWN, reasons.NOT_DECLARED, told)
    if seen is None:
        told = "less than two minutes of samples"
        return Condition(name, Status.UNKNOWN, reasons.NOT_MEASURED, told)
    most = peak * declared.mean_prompt_tokens
    told = f"{seen:,.0f} prompt tokens/min arrive; declared at most {most:,.0f}"
    if seen > ABOVE_DECLARED * most:
        return Condition(name, Status.FALSE, reasons.ABOVE_DECLARED, told)
    return Condition(name, Status.TRUE, reasons.WITHIN_DECLARED, told)


def _scaling_limited(counts: Counts, limited: Limited) -> Condition:
    if limited.reason and counts.desired != counts.wanted:
        return Condition("ScalingLimited", Status.TRUE, limited.reason, limited.message)
    told = "the desired count is what is wanted"
    return Condition("ScalingLimited", Status.FALSE, reasons.NOT_LIMITED, told)


def _stalled(found: Assessment) -> Condition:
    if found.conflict is not None:
        return Condition("Stalled", Status.TRUE, found.conflict.reason, found.conflict.message)
    told = "kvscale is the only writer"
    if found.mode is Mode.RECOMMEND:
        told = "nothing is written in Recommend: whoever scales the target is not in the way"
    return Condition("Stalled", Status.FALSE, reasons.NO_CONFLICT, told)
