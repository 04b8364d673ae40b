"""What a user says of the traffic: rates, lengths, what prompts share."""

from dataclasses import dataclass
from enum import StrEnum

from kvscale.core.traffic.requests import Requests


class TrafficSource(StrEnum):
    """What sizes a pool (rule 2)."""

    OBSERVED = "Observed"
    DECLARED = "Declared"
    LARGER = "Larger"


@dataclass(frozen=True, slots=True)
class LengthPercentiles:
    """Declared lengths in tokens; None where not declared. Ascending where both are set."""

    mean: int | None = None
    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """What the prompts begin with.

    Attributes:
        tokens: that a prompt shares with others.
        distinct: different prefixes in use at once.
    """

    tokens: int
    distinct: int = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Declared traffic of the whole pool.

    Attributes:
        source: whether measured or declared traffic sizes the pool.
        mean_per_minute, peak_per_minute: requests per minute; None where not declared.
        prompt_tokens, output_tokens: lengths in tokens, the prefix a part of the prompt; None
            where not declared.
        shared_prefix: what prompts begin with and the engine caches once; None: nothing.
        requests: lengths of real requests, prompt and output together, from a trace; they take
            the place of the percentiles. None: no trace.
    """

    source: TrafficSource = TrafficSource.OBSERVED
    mean_per_minute: int | None = None
    peak_per_minute: int | None = None
    prompt_tokens: LengthPercentiles | None = None
    output_tokens: LengthPercentiles | None = None
    shared_prefix: SharedPrefix | None = None
    requests: Requests | None = None
