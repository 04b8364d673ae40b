"""The requests that a pool declares, as one engine meets them."""

from dataclasses import dataclass
from functools import lru_cache

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.spec import LengthPercentiles, Traffic
from kvscale.core.traffic.lengths import Fit, Lengths, declared_percentiles, fit, total
from kvscale.core.traffic.residency import Residents, residents
from kvscale.core.values import Unknown

PROMPT_FIELD = "spec.traffic.promptTokens"
OUTPUT_FIELD = "spec.traffic.outputTokens"

CACHED = 4096
"""Answers kept: one per declaration, with room for a large fleet. One takes milliseconds, and every
status asks for it again."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Request lengths of a pool on an engine that accepts sequences up to its maximum length.

    Attributes:
        prompt, output: each alone.
        total: prompt + output, independent of each other.
        residents: what the sequences in an engine hold.
        assumptions: one sentence each.
        problems: where the declaration contradicts itself or the engine; the numbers are then
            those of the nearest traffic that does not.
    """

    prompt: Lengths
    output: Lengths
    total: Lengths
    residents: Residents
    assumptions: tuple[str, ...] = ()
    problems: tuple[Refusal, ...] = ()


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
    independent = "prompt and output lengths are taken as independent, and no prefix as cached"
    above = both.share_above(max_model_len)
    if above <= 0:
        return (independent,)
    capped = (
        f"{above:.2%} of the requests reach the engine's maximum length of {max_model_len} tokens "
        "and are counted at it"
    )
    return (independent, capped)


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
