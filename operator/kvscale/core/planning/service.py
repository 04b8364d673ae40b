"""What one engine serves at a batch: the step time and the residence that go together."""

import math
from dataclasses import dataclass
from functools import lru_cache

from kvscale.core.capacity.roofline import StepTime, chunk_pairs
from kvscale.core.planning.step_trace import step_of
from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import Residence, residence, significant

HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Service:
    """An engine under a traffic.

    Attributes:
        model: its step time.
        prefill_seconds: of a mean prompt alone.
        work_seconds: what a mean prompt takes from the steps of others.
        output_tokens: mean output.
        resident_tokens: mean tokens of a resident sequence.
        prompt_tokens: mean prompt, of whole tokens.
        prompt_pairs: mean pairs (token, attended token) of a prompt.
    """

    model: StepTime
    prefill_seconds: float
    work_seconds: float
    output_tokens: float
    resident_tokens: float
    prompt_tokens: float = 0.0
    prompt_pairs: float = 0.0

    def at(self, batch: float) -> Residence:
        """The engine when it holds that many sequences (above 0) on average."""
        return residence(
            batch=batch,
            prefill_seconds=self.prefill_seconds,
            prefill_work_seconds=self.work_seconds,
            output_tokens=self.output_tokens,
            step_seconds=self._step_seconds(batch),
        )

    def at_rate(self, requests_per_second: float, most: float) -> Residence | None:
        """The engine when it serves that rate; None where that takes more than `most` sequences.

        The rate never falls with the batch: a step has a fixed part, and what grows with the
        batch is at most proportional to it.
        """
        if self.at(most).requests_per_second < requests_per_second:
            return None
        low, high = 0.0, most
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self.at(middle).requests_per_second < requests_per_second:
                low = middle
            else:
                high = middle
        return self.at(high)

    def trace(self, stay: Residence) -> Trace:
        """How long everything takes at the batch of that residence."""
        return (
            Step(
                "prefillSeconds",
                significant(self.prefill_seconds),
                "seconds",
                "mean time of a prompt alone, in chunks of maxNumBatchedTokens",
            ),
            Step(
                "prefillWorkSeconds",
                significant(self.work_seconds),
                "seconds",
                "promptTokens * secondsPerToken + promptPairs * secondsPerPair; arithmetic of a "
                "mean prompt, which it takes from the steps of others",
                (
                    ("promptTokens", significant(self.prompt_tokens)),
                    ("secondsPerToken", significant(self.model.compute_token)),
                    ("promptPairs", significant(self.prompt_pairs)),
                    ("secondsPerPair", significant(self.model.compute_pair)),
                ),
            ),
            step_of(self.model, stay, self.resident_tokens),
            *stay.trace(),
        )

    def _step_seconds(self, batch: float) -> float:
        """A decode step at a batch that is no whole number: straight between its neighbours."""
        below = max(1, math.floor(batch))

        def at(sequences: int) -> float:
            return self.model.seconds(
                decode_sequences=sequences, resident_tokens=round(sequences * self.resident_tokens)
            )

        least = at(below)
        return least + max(0.0, batch - below) * (at(below + 1) - least)


@lru_cache(maxsize=64)
def _whole_prompts(requests: Profile) -> tuple[tuple[float, int], ...]:
    """Weight and whole tokens of the prompts: a plan puts the same ones to two dozen engines."""
    return tuple((weight, whole(length)) for weight, length in requests.prompts())


@lru_cache(maxsize=512)
def service(model: StepTime, requests: Profile, chunk_tokens: int) -> Service:
    """An engine under a traffic.

    Args:
        model: its step time.
        requests: the traffic's lengths.
        chunk_tokens: token budget of a step.
    """
    prefill = work = prompt = prompt_pairs = 0.0
    for weight, tokens in _whole_prompts(requests):
        pairs = chunk_pairs(0, tokens)
        prefill += weight * model.prefill_seconds(tokens, chunk_tokens)
        work += weight * model.compute_seconds(tokens, pairs)
        prompt += weight * tokens
        prompt_pairs += weight * pairs
    held = requests.residents
    return Service(
        model, prefill, work, held.output_tokens, held.resident_tokens, prompt, prompt_pairs
    )
