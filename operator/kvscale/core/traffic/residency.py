"""How much a resident sequence holds, and how long it stays.

A request's cache grows while it decodes, and long requests stay longer, so what an engine holds at
a moment is longer than the requests that it is given. Waiting is not residence: it holds no cache.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.lengths import ONE, Lengths

PREFILL_SHARE_LIMIT = 0.75
"""Largest share of an engine's time that a plan gives to prompts: at 0.75 decode steps take four
times as long, and beyond it queues grow out of proportion."""

FloorBound = Literal["KV", "Sequences", "Prefill"]
"""What limits the load of one engine: its memory, its slots, or the time for prompts."""


@dataclass(frozen=True, slots=True)
class Residents:
    """The sequences that an engine holds, on average over time.

    Attributes:
        prompt_tokens: mean prompt of the arriving requests.
        output_tokens: mean output of the arriving requests.
        resident_tokens: mean tokens that a resident sequence holds.
        output_by_step: mean output over decode steps: E[output ^ 2] / E[output].
    """

    prompt_tokens: float
    output_tokens: float
    resident_tokens: float
    output_by_step: float

    def trace(self) -> Trace:
        """The arithmetic."""
        return (
            Step(
                "residentTokens",
                significant(self.resident_tokens),
                "tokens",
                "promptByStep + outputByStep / 2; means over decode steps, in which long outputs "
                "are met more often: not meanPromptTokens + meanOutputTokens / 2",
                (
                    ("promptByStep", significant(self.resident_tokens - self.output_by_step / 2)),
                    ("outputByStep", significant(self.output_by_step)),
                    ("meanPromptTokens", significant(self.prompt_tokens)),
                    ("meanOutputTokens", significant(self.output_tokens)),
                ),
            ),
        )


@lru_cache(maxsize=512)
def residents(prompt: Lengths, output: Lengths, limit: int) -> Residents:
    """What the sequences in an engine hold, prompt and output being independent.

    Args:
        prompt: prompt lengths, with at least one token.
        output: output lengths, with at least one token.
        limit: longest sequence that the engine accepts; an output ends there.
    """
    cells = tuple(output.cells())
    lengths = [length for _, length in cells]
    # Sums over the cells below each one: weight, weight * length, weight * length squared.
    weights = [0.0, *accumulate(w for w, _ in cells)]
    firsts = [0.0, *accumulate(w * o for w, o in cells)]
    seconds = [0.0, *accumulate(w * o * o for w, o in cells)]
    prompts = outputs = held = squares = 0.0
    for v, declared in prompt.cells():
        p = min(declared, limit - 1)
        longest = limit - p
        below = bisect_right(lengths, longest)
        ended = ONE - weights[below]
        first = firsts[below] + ended * longest
        second = seconds[below] + ended * longest * longest
        prompts += v * p
        outputs += v * first
        held += v * (p * first + second / 2)
        squares += v * second
    return Residents(prompts / ONE, outputs / (ONE * ONE), held / outputs, squares / outputs)


@dataclass(frozen=True, slots=True)
class Residence:
    """One engine at the batch that the plan allows.

    Attributes:
        batch: sequences that the plan allows to be resident at once.
        prefill_seconds: from a request's start to its first token, on an engine of its own.
        prefill_work_seconds: what its prompt takes from the steps that others share with it.
        output_tokens: mean output of a request.
        step_seconds: of one decode step of that batch, without prefill beside it.
        requests_per_second: what one engine serves then.
    """

    batch: float
    prefill_seconds: float
    prefill_work_seconds: float
    output_tokens: float
    step_seconds: float
    requests_per_second: float

    @property
    def prefill_share(self) -> float:
        """The share of the engine's time that prefill takes."""
        return self.requests_per_second * self.prefill_work_seconds

    @property
    def seconds(self) -> float:
        """How long a request holds cache."""
        decode = self.output_tokens * self.step_seconds
        return self.prefill_seconds + decode / (1 - self.prefill_share)

    @property
    def prefill_bound(self) -> bool:
        """Whether the time for prefill, not the batch, limits the rate."""
        return self.prefill_share >= PREFILL_SHARE_LIMIT * (1 - 1e-9)

    def trace(self) -> Trace:
        """The arithmetic; `Service.trace` has what comes before it."""
        work = ("prefillWorkSeconds", significant(self.prefill_work_seconds))
        batch = ("plannedBatch", significant(self.batch))
        times = (
            ("prefillSeconds", significant(self.prefill_seconds)),
            ("stepSeconds", significant(self.step_seconds)),
            ("meanOutputTokens", significant(self.output_tokens)),
        )
        return (
            Step(
                "requestsPerSecond",
                significant(self.requests_per_second),
                "requests/s per engine",
                f"{PREFILL_SHARE_LIMIT} / prefillWorkSeconds; prompts limit it, not plannedBatch"
                if self.prefill_bound
                else "plannedBatch / (prefillSeconds + meanOutputTokens * stepSeconds / "
                "(1 - requestsPerSecond * prefillWorkSeconds)); the value that solves it",
                (batch, work) if self.prefill_bound else (batch, work, *times),
            ),
            Step(
                "prefillShare",
                significant(self.prefill_share),
                "",
                "requestsPerSecond * prefillWorkSeconds",
                (("requestsPerSecond", significant(self.requests_per_second)), work),
            ),
            Step(
                "residenceSeconds",
                significant(self.seconds),
                "seconds",
                "prefillSeconds + meanOutputTokens * stepSeconds / (1 - prefillShare)",
                (*times, ("prefillShare", significant(self.prefill_share))),
            ),
        )


def residence(
    *,
    batch: float,
    prefill_seconds: float,
    prefill_work_seconds: float,
    output_tokens: float,
    step_seconds: float,
) -> Residence:
    """The rate that one engine serves at a batch, and the residence that follows from it.

    Prefill and decode share the device (chunked prefill), so an engine that serves r requests a
    second spends r * work of each second on prompts, and decode steps stretch by
    1 / (1 - r * work). By Little's law the batch is r * residence:

        r = batch / (prefill + output * step / (1 - r * work))

    Iterating this jumps over its pole; as a quadratic in r it has exactly one root with
    r * work < 1 (at r = 1 / work the polynomial is not positive). So any rate is served by enough
    engines. The root is taken in the form that also holds for work = 0.

    Args:
        batch: resident sequences, above 0.
        prefill_seconds: of one request alone, at least 0.
        prefill_work_seconds: device time that its prompt takes from others, at least 0.
        output_tokens: mean output of a request, above 0.
        step_seconds: of one decode step at that batch, above 0.
    """
    work = prefill_work_seconds
    linear = prefill_seconds + output_tokens * step_seconds + batch * work
    root = math.sqrt(max(0.0, linear * linear - 4 * batch * work * prefill_seconds))
    rate = 2 * batch / (linear + root)
    if work > 0:
        rate = min(rate, PREFILL_SHARE_LIMIT / work)
    return Residence(batch, prefill_seconds, work, output_tokens, step_seconds, rate)


def significant(value: float) -> float:
    """Four significant digits: a trace is read by people."""
    return float(f"{value:.4g}")
