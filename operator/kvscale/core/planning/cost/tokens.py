"""What output tokens cost: the price of an engine's devices over the tokens that it emits.

    cost per token = devices * price per hour / 3600 / (output tokens per second at batch B)

An engine with B resident sequences emits `B / step time` tokens a second when it does nothing
else, which with B = M / S (memory over what a resident sequence holds) is the textbook
`C_hour / 3600 * t_step / (M / S)`. Prompts take their share of the time (`traffic.residency`), so
with traffic the tokens are those of the requests that the engine serves at that batch.

Costs are in millionths of the currency, per million output tokens or per hour. A band's low cost is
that of the high capacity.
"""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.devices.price import MICROS, Price
from kvscale.core.planning.service import Service, service
from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import significant
from kvscale.core.values import Band

MILLION = 1_000_000


def decoding(model: StepTime, capacity: EngineCapacity, requests: Profile | None) -> Service:
    """How fast one engine turns sequences into output tokens.

    Args:
        model: its step time.
        capacity: what it holds.
        requests: lengths of the traffic; None: sequences of the maximum length decode, and nothing
            else happens.
    """
    if requests is None:
        return Service(model, 0.0, 0.0, 1.0, float(capacity.max_model_len))
    return service(model, requests, capacity.max_num_batched_tokens)


def tokens_per_second(decode: Service, batch: float) -> float:
    """Output tokens of one engine with that many resident sequences, above 0."""
    return decode.at(batch).requests_per_second * decode.output_tokens


@dataclass(frozen=True, slots=True)
class CostPoint:
    """Cost of output tokens at one way of loading an engine.

    Attributes:
        name: "ceiling" (as many as its memory holds), "planning" (as many as the plan allows).
        batch_milli: resident sequences of an engine, in thousandths.
        micros_per_million: per million output tokens.
        trace: the arithmetic.
    """

    name: str
    batch_milli: Band
    micros_per_million: Band
    trace: Trace


@dataclass(frozen=True, slots=True)
class RateCost:
    """Cost of the whole pool at a declared rate.

    Attributes:
        name: "mean" or "peak".
        replicas: that run then.
        micros_per_hour: of all of them.
        micros_per_million: per million of the output tokens that are asked for.
        last_micros_per_million: of the last replica alone, over the tokens that the others cannot
            serve (the marginal cost).
    """

    name: str
    replicas: int
    micros_per_hour: int
    micros_per_million: int
    last_micros_per_million: int


def ceiling_batch(capacity: EngineCapacity, context_tokens: float) -> Band:
    """Resident sequences of that mean length that an engine holds and runs, in thousandths."""
    held = max(1, capacity.resident_blocks(max(1, whole(context_tokens))))
    return _batches(capacity, held, 1000)


def planning_batch(capacity: EngineCapacity, footprint_tokens: int, occupancy_percent: int) -> Band:
    """Sequences that a plan allows an engine, in thousandths.

    Args:
        capacity: of the engine.
        footprint_tokens: length that the plan budgets for.
        occupancy_percent: share of the usable blocks that it fills.
    """
    return _batches(capacity, max(1, capacity.blocks_for(footprint_tokens)), 10 * occupancy_percent)


def cost_point(name: str, decode: Service, batch_milli: Band, hourly_micros: int) -> CostPoint:
    """Cost of output tokens of an engine at that batch.

    Args:
        name: of the point.
        decode: how fast the engine is.
        batch_milli: resident sequences, in thousandths; a low of 0 has no finite cost and is
            counted as one sequence.
        hourly_micros: of all devices of the engine.
    """
    speeds = [
        tokens_per_second(decode, max(1000, batch) / 1000)
        for batch in (batch_milli.low, batch_milli.expected, batch_milli.high)
    ]
    # More sequences cost less a token, until prompts take the time: then it is the same.
    costs = [per_million(hourly_micros, speed) for speed in speeds]
    band = Band(min(costs), costs[1], max(costs))
    step = Step(
        f"cost{name.capitalize()}",
        significant(costs[1] / MICROS),
        "per million output tokens",
        "round(1,000,000 * pricePerHourOfEngine / 3600 / outputTokensPerSecond, 6); with a batch "
        "of sequences that hold residentTokens each",
        (
            ("pricePerHourOfEngine", significant(hourly_micros / MICROS)),
            ("batch", significant(max(1000, batch_milli.expected) / 1000)),
            ("outputTokensPerSecond", significant(speeds[1])),
            ("residentTokens", significant(decode.resident_tokens)),
        ),
    )
    return CostPoint(name, batch_milli, band, (step,))


def rate_cost(
    name: str,
    *,
    replicas: int,
    tokens_per_minute: float,
    replica_tokens_per_minute: float,
    replica_micros_per_hour: int,
) -> RateCost:
    """Cost of a pool that emits that many tokens a minute.

    Args:
        name: of the rate.
        replicas: that serve it, positive.
        tokens_per_minute: output tokens that are asked for, positive.
        replica_tokens_per_minute: that the plan lets one replica serve.
        replica_micros_per_hour: price of one replica.
    """
    left = tokens_per_minute - (replicas - 1) * replica_tokens_per_minute
    if left <= replica_tokens_per_minute / MILLION:  # the rate is a whole number of replicas
        left = replica_tokens_per_minute
    return RateCost(
        name,
        replicas,
        replicas * replica_micros_per_hour,
        per_million(replicas * replica_micros_per_hour, tokens_per_minute / 60),
        per_million(replica_micros_per_hour, left / 60),
    )


def hourly(price: Price, devices: int) -> int:
    """Millionths of the currency that so many devices cost in an hour."""
    return price.micros_per_device_hour * devices


def per_million(hourly_micros: int, tokens_per_second: float) -> int:
    """Millionths of the currency per million tokens."""
    return round(hourly_micros / 3600 / tokens_per_second * MILLION)


def _batches(capacity: EngineCapacity, blocks: int, share_milli: int) -> Band:
    usable, most = capacity.usable_blocks, 1000 * capacity.max_num_seqs
    return Band(
        *(min(n * share_milli // blocks, most) for n in (usable.low, usable.expected, usable.high))
    )
