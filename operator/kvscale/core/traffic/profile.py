"""The requests that a pool declares, as one engine meets them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

from kvscale.core.refusal import Refusal
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.fit import Fit, declared_percentiles, fit
from kvscale.core.traffic.lengths import ONE, Lengths, of_points, total
from kvscale.core.traffic.requests import Requests
from kvscale.core.traffic.residency import Residents, residents
from kvscale.core.values import Unknown

PROMPT_FIELD = "spec.traffic.promptTokens"
OUTPUT_FIELD = "spec.traffic.outputTokens"

CACHED = 4096
"""Answers kept: one per declaration, with room for a large fleet. One takes milliseconds, and every
status asks for it again."""

TELLS_P999 = 1000
"""Requests of a trace below which none is beyond its p99.9."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Request lengths of a pool on an engine that accepts sequences up to its maximum length.

    Attributes:
        prompt, output: each alone.
        total: prompt + output, independent of each other unless a trace says how they go together.
        residents: what the sequences in an engine hold.
        assumptions: one sentence each.
        problems: where the declaration contradicts itself or the engine; the numbers are then
            those of the nearest traffic that does not.
        measured: prompt and output together, where a trace gives them; capped as the rest.
    """

    prompt: Lengths
    output: Lengths
    total: Lengths
    residents: Residents
    assumptions: tuple[str, ...] = ()
    problems: tuple[Refusal, ...] = ()
    measured: Requests | None = None

    def requests(self, max_model_len: int) -> Requests:
        """Prompt and output together, on an engine that accepts sequences of that length."""
        return self.measured or independent(self.prompt, self.output, max_model_len)

    def prompts(self) -> Iterable[tuple[float, float]]:
        """Weight and length of the prompts; the weights add up to 1."""
        if self.measured is not None:
            return zip(self.measured.weights, self.measured.prompts, strict=True)
        return ((weight / ONE, length) for weight, length in self.prompt.cells())


@lru_cache(maxsize=64)
def independent(prompt: Lengths, output: Lengths, max_model_len: int) -> Requests:
    """Requests whose prompts and outputs know nothing of each other."""
    prompts, outputs = _points(prompt), _points(output)
    return Requests(
        tuple([length for length, _ in prompts for _ in outputs]),
        tuple([length for _ in prompts for length, _ in outputs]),
        tuple([share * other for _, share in prompts for _, other in outputs]),
    ).capped(max_model_len)


def _points(lengths: Lengths) -> list[tuple[float, float]]:
    """Length and share of each cell; cells of one length are one point."""
    shares: dict[float, float] = {}
    for weight, length in lengths.cells():
        shares[length] = shares.get(length, 0.0) + weight / ONE
    return list(shares.items())


@lru_cache(maxsize=CACHED)
def profile(traffic: Traffic | None, max_model_len: int) -> Profile | Unknown:
    """The lengths that `traffic` declares, or which field is missing.

    Args:
        traffic: as declared; the rates are not looked at.
        max_model_len: longest sequence in tokens. The engine refuses a longer request, or ends
            its output there: lengths are capped at it.
    """
    if traffic is None:
        return Unknown("TrafficNotDeclared", "spec.traffic is not declared: add its lengths")
    if traffic.requests is not None:
        return _of_trace(traffic.requests, max_model_len)
    return _of_percentiles(traffic, max_model_len)


def _of_percentiles(traffic: Traffic, max_model_len: int) -> Profile | Unknown:
    """The profile of declared lengths."""
    if traffic.prompt_tokens is None:
        return Unknown("TrafficNotDeclared", f"{PROMPT_FIELD} is not declared: add its mean or p95")
    if traffic.output_tokens is None:
        return Unknown("TrafficNotDeclared", f"{OUTPUT_FIELD} is not declared: add its mean or p95")
    prompt = fit(traffic.prompt_tokens, PROMPT_FIELD)
    if isinstance(prompt, Unknown):
        return prompt
    output = fit(traffic.output_tokens, OUTPUT_FIELD)
    if isinstance(output, Unknown):
        return output
    both = total(prompt.lengths, output.lengths)
    return Profile(
        prompt.lengths.capped(max_model_len),
        output.lengths.capped(max_model_len),
        both.capped(max_model_len),
        residents(prompt.lengths, output.lengths, max_model_len),
        (*prompt.assumptions, *output.assumptions, *_assumptions(both, max_model_len)),
        _problems(traffic.prompt_tokens, traffic.output_tokens, prompt, output, max_model_len),
    )


def _assumptions(both: Lengths, max_model_len: int) -> tuple[str, ...]:
    independence = "prompt and output lengths are taken as independent, and no prefix as cached"
    return (independence, *_cut(both.share_above(max_model_len), max_model_len))


def _cut(share: float, max_model_len: int) -> tuple[str, ...]:
    if share <= 0:
        return ()
    told = (
        f"{share:.2%} of the requests reach the engine's maximum length of {max_model_len} tokens "
        "and are counted at it"
    )
    return (told,)


def _of_trace(requests: Requests, max_model_len: int) -> Profile:
    """The profile of measured requests."""
    joint = (
        f"prompt and output lengths are those of {requests.count} requests of a trace, each with "
        "its own output; no prefix is taken as cached"
    )
    rare = (
        f"a trace of {requests.count} requests does not tell p99.9: its longest request is taken "
        "for it"
    )
    told = (joint,) if requests.count >= TELLS_P999 else (joint, rare)
    longer = requests.longer_than(max_model_len)
    share = 0.0 if longer is None else sum(longer.weights)
    long_prompts = sum(
        weight
        for prompt, weight in zip(requests.prompts, requests.weights, strict=True)
        if prompt > max_model_len
    )
    problems: tuple[Refusal, ...] = ()
    if long_prompts > 0:
        problems = (
            Refusal(
                "TrafficExceedsModelLength",
                "--trace",
                f"{long_prompts:.2%} of the trace's prompts are longer than the {max_model_len} "
                "tokens that the engine accepts: raise --max-model-len or choose another trace",
            ),
        )
    kept = requests.capped(max_model_len)
    return Profile(
        of_points(kept.prompts, kept.weights),
        of_points(kept.outputs, kept.weights),
        of_points(kept.totals(), kept.weights),
        _residents(kept),
        (*told, *_cut(share, max_model_len)),
        problems,
        kept,
    )


def _residents(requests: Requests) -> Residents:
    """What the sequences in an engine hold: every length of a request is held for one step."""
    points = tuple(zip(requests.weights, requests.prompts, requests.outputs, strict=True))
    held = sum(weight * o * (p + o / 2) for weight, p, o in points)
    prompts = sum(map(mul, requests.weights, requests.prompts))
    outputs = sum(map(mul, requests.weights, requests.outputs))
    squares = sum(weight * o * o for weight, _, o in points)
    return Residents(prompts, outputs, held / outputs, squares / outputs)


def _problems(
    prompt: LengthPercentiles,
    output: LengthPercentiles,
    prompt_fit: Fit,
    output_fit: Fit,
    max_model_len: int,
) -> tuple[Refusal, ...]:
    found = [fitted.problem for fitted in (prompt_fit, output_fit) if fitted.problem is not None]
    for field, declared in ((PROMPT_FIELD, prompt), (OUTPUT_FIELD, output)):
        lengths = [(f"p{percent}", tokens) for percent, tokens in declared_percentiles(declared)]
        if declared.mean is not None:
            lengths.append(("mean", float(declared.mean)))
        too_long = [(name, tokens) for name, tokens in lengths if tokens > max_model_len]
        if too_long:
            # The lowest that is too long says the most: half the requests, or one in a hundred.
            name, tokens = too_long[0]
            found.append(
                Refusal(
                    "TrafficExceedsModelLength",
                    f"{field}.{name}",
                    f"{field}.{name} is {tokens:.0f} tokens, but the engine accepts "
                    f"{max_model_len}: raise --max-model-len or correct the traffic",
                )
            )
    return tuple(found)
