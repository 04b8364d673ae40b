"""Requests as prompt and output together: measured in a trace, or put together from two lengths.

A long prompt often has a short answer (documents) or a long one (code). Percentiles of each alone
do not tell, a trace does. What an engine holds depends on both: a request's cache starts at its
prompt and grows by a token with each step of its output.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

BIN = 1.05
"""Requests whose prompts and whose outputs lie within this ratio are kept as one, at their mean.

A trace of 20,000 requests becomes some 2,000. Means are kept, and what is lost of the spread is at
most (1.05 - 1) ** 2 / 12: a five-thousandth of the variance.
"""

_LOG_BIN = math.log(BIN)


@dataclass(frozen=True, slots=True)
class Requests:
    """A joint distribution of prompt and output lengths, as weighted points.

    Attributes:
        prompts: tokens of each point's prompt, at least 1.
        outputs: tokens of its output, at least 1.
        weights: its share of the requests; they add up to 1.
        count: requests that were measured; 0: derived, not measured.
    """

    prompts: tuple[float, ...]
    outputs: tuple[float, ...]
    weights: tuple[float, ...]
    count: int = 0

    def capped(self, limit: int) -> "Requests":
        """The same on an engine that accepts `limit` tokens: an output ends there."""
        if max(map(float.__add__, self.prompts, self.outputs)) <= limit:
            return self
        prompts = tuple(map(min, self.prompts, repeat(limit - 1.0)))
        room = [limit - prompt for prompt in prompts]
        return Requests(prompts, tuple(map(min, self.outputs, room)), self.weights, self.count)

    def totals(self) -> tuple[float, ...]:
        """Prompt + output of each point."""
        return tuple(map(float.__add__, self.prompts, self.outputs))

    def longer_than(self, tokens: float) -> "Requests | None":
        """The part whose prompt + output is longer; weights are as they were, and add up to less.

        None where there is none.
        """
        kept = [i for i, total in enumerate(self.totals()) if total > tokens]
        if not kept:
            return None
        prompts, outputs, weights = (
            tuple(values[i] for i in kept) for values in (self.prompts, self.outputs, self.weights)
        )
        return Requests(prompts, outputs, weights, self.count)


def measured(pairs: Iterable[tuple[int, int]]) -> Requests | None:
    """The distribution of (prompt, output) pairs, in tokens; None where there is no request.

    A prompt is counted as at least one token, and so is an output: a request without any takes no
    decode step, but it was there.
    """
    bins: dict[tuple[int, int], list[int]] = {}
    count = 0
    for raw_prompt, raw_output in pairs:
        prompt, output = max(1, raw_prompt), max(1, raw_output)
        key = (round(math.log(prompt) / _LOG_BIN), round(math.log(output) / _LOG_BIN))
        found = bins.setdefault(key, [0, 0, 0])
        found[0] += 1
        found[1] += prompt
        found[2] += output
        count += 1
    if not count:
        return None
    rows = [bins[key] for key in sorted(bins)]
    return Requests(
        tuple(prompts / n for n, prompts, _ in rows),
        tuple(outputs / n for n, _, outputs in rows),
        tuple(n / count for n, _, _ in rows),
        count,
    )
