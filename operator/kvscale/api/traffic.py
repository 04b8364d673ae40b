"""`spec.traffic` and `spec.metrics`: what is declared of the load, and where it is measured."""

from typing import Annotated, ClassVar

from pydantic import Field

from kvscale.api.rules import ApiModel, PositiveInt, Rule, Tokens
from kvscale.core.spec import MetricsSpec
from kvscale.core.traffic.declared import LengthPercentiles, SharedPrefix, Traffic, TrafficSource

_PERCENTILES = ("p50", "p90", "p95", "p99")


def _ascending(lower: str, upper: str) -> Rule:
    def holds(lengths: object) -> bool:
        low, high = getattr(lengths, lower), getattr(lengths, upper)
        return low is None or high is None or bool(low <= high)

    return Rule(
        f"!has(self.{lower}) || !has(self.{upper}) || self.{lower} <= self.{upper}",
        holds,
        f"{lower} {{{lower}}} is above {upper} {{{upper}}}: percentiles ascend, mend one of them",
        lower,
    )


def _markov(percentile: str, one_in: int) -> Rule:
    """Markov's inequality: one request in `one_in` is that long, so the mean is at least 1/one_in.

    One token of rounding is allowed for on the mean's side.
    """

    def holds(lengths: "LengthsModel") -> bool:
        mean, length = lengths.mean, getattr(lengths, percentile)
        return mean is None or length is None or bool((mean + 1) * one_in >= length)

    return Rule(
        f"!has(self.mean) || !has(self.{percentile})"
        f" || (self.mean + 1) * {one_in} >= self.{percentile}",
        holds,
        f"mean {{mean}} is impossible with {percentile} {{{percentile}}}: one request in {one_in}"
        f" is that long, so the mean is at least {percentile} / {one_in}, mend one of them",
        "mean",
    )


class LengthsModel(ApiModel):
    """Lengths in tokens; any subset."""

    rules: ClassVar = (
        *(
            _ascending(lower, upper)
            for index, lower in enumerate(_PERCENTILES)
            for upper in _PERCENTILES[index + 1 :]
        ),
        _markov("p50", 2),
        _markov("p90", 10),
        _markov("p95", 20),
        _markov("p99", 100),
    )

    mean: Tokens | None = None
    """Mean length in tokens, e.g. 900."""
    p50: Tokens | None = None
    """Median length in tokens, e.g. 600."""
    p90: Tokens | None = None
    """90th percentile of the length in tokens, e.g. 2100."""
    p95: Tokens | None = None
    """95th percentile of the length in tokens, e.g. 3300."""
    p99: Tokens | None = None
    """99th percentile of the length in tokens, e.g. 7800."""

    def to_core(self) -> LengthPercentiles:
        """The lengths as the loop reads them; the fields have the same names."""
        return LengthPercentiles(**dict(self))


class SharedPrefixModel(ApiModel):
    """What prompts begin with and the engine caches once, such as a system prompt."""

    tokens: Tokens
    """Tokens of the prefix, e.g. 400."""
    distinct: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """Different prefixes in use at once, e.g. 1. Absent: 1."""

    def to_core(self) -> SharedPrefix:
        """The prefix as a plan reads it."""
        return SharedPrefix(self.tokens, self.distinct or SharedPrefix(self.tokens).distinct)


class RequestRate(ApiModel):
    """Arrival rate of the whole pool in requests per minute."""

    rules: ClassVar = (
        Rule(
            "!has(self.mean) || !has(self.peak) || self.mean <= self.peak",
            lambda s: s.mean is None or s.peak is None or s.mean <= s.peak,
            "peak {peak} is below mean {mean}: raise peak or lower mean",
            "peak",
        ),
    )

    mean: PositiveInt | None = None
    """Mean rate in requests per minute, e.g. 240."""
    peak: PositiveInt | None = None
    """Peak rate in requests per minute, e.g. 900."""


def _declared_in_full(traffic: "TrafficModel") -> bool:
    if traffic.source in {None, TrafficSource.OBSERVED}:
        return True
    return None not in (traffic.requests_per_minute, traffic.prompt_tokens, traffic.output_tokens)


def _prefix_is_part_of_prompts(traffic: "TrafficModel") -> bool:
    prefix, prompt = traffic.shared_prefix, traffic.prompt_tokens
    return prefix is None or prompt is None or not prompt.mean or prefix.tokens <= prompt.mean


class TrafficModel(ApiModel):
    """The traffic that the pool declares: the prior until data comes, and the floor without it."""

    rules: ClassVar = (
        Rule(
            "!has(self.source) || self.source == 'Observed' || (has(self.requestsPerMinute)"
            " && has(self.promptTokens) && has(self.outputTokens))",
            _declared_in_full,
            "{source} sizes the pool by declared traffic: set requestsPerMinute, promptTokens and"
            " outputTokens, or use Observed",
            "source",
        ),
        Rule(
            "!has(self.sharedPrefix) || !has(self.promptTokens) || !has(self.promptTokens.mean)"
            " || self.sharedPrefix.tokens <= self.promptTokens.mean",
            _prefix_is_part_of_prompts,
            "the shared prefix of {sharedPrefix.tokens} tokens is longer than the mean prompt of"
            " {promptTokens.mean}, which it is the beginning of: lower sharedPrefix.tokens, or"
            " count it in promptTokens",
            "sharedPrefix",
        ),
    )

    source: TrafficSource | None = None
    """What sizes the pool: Observed (measured data alone, while healthy), Declared (the floor at
    the declared peak is a bound always) or Larger (the larger of both). Absent: Observed."""
    requests_per_minute: RequestRate | None = None
    """Arrival rate of the whole pool."""
    prompt_tokens: LengthsModel | None = None
    """Lengths of prompts in tokens."""
    output_tokens: LengthsModel | None = None
    """Lengths of outputs in tokens."""
    shared_prefix: SharedPrefixModel | None = None
    """What prompts begin with and the engine caches once. Absent: none."""

    def to_core(self) -> Traffic:
        """The traffic as the loop reads it."""
        rate = self.requests_per_minute or RequestRate()
        return Traffic(
            source=self.source or Traffic().source,
            mean_per_minute=rate.mean,
            peak_per_minute=rate.peak,
            prompt_tokens=None if self.prompt_tokens is None else self.prompt_tokens.to_core(),
            output_tokens=None if self.output_tokens is None else self.output_tokens.to_core(),
            shared_prefix=None if self.shared_prefix is None else self.shared_prefix.to_core(),
        )


class MetricsModel(ApiModel):
    """Where the engines' metrics are read."""

    source_name: (
        Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] | None
    ) = None
    """A source of the operator's configuration by its name, e.g. prometheus; never an address.
    Absent: the operator's default."""
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    """Port of the pods' metrics, e.g. 8000. Absent: the operator's default."""
    path: (
        Annotated[str, Field(max_length=128, pattern=r"^/[A-Za-z0-9._~-]*(/[A-Za-z0-9._~-]+)*$")]
        | None
    ) = None
    """Path of the pods' metrics, e.g. /metrics. Absent: the operator's default."""
    served_model_name: (
        Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$")] | None
    ) = None
    """Only series with this model_name, e.g. llama. Absent: every series of the pods."""

    def to_core(self) -> MetricsSpec:
        """The source as the loop reads it."""
        return MetricsSpec(self.source_name, self.port, self.path, self.served_model_name or "")
