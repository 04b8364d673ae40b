"""The step time of a planned batch, as a step of the trace."""

import math

from kvscale.core.capacity.roofline import StepTime
from kvscale.core.trace import Inputs, Step
from kvscale.core.traffic.residency import Residence, significant


def step_of(model: StepTime, stay: Residence, resident_tokens: float) -> Step:
    """One decode step of the batch, each sequence holding so many tokens.

    Between whole batches the time is a straight line (`Service.at`). Where the same roof is the
    higher one at both ends, so are its parts, and the roofline itself is the formula.
    """
    below = max(1, math.floor(stay.batch))
    share = max(0.0, stay.batch - below)
    ends = (below, below + 1) if share else (below, below)
    bound = [model.is_memory_bound(n, round(n * resident_tokens)) for n in ends]
    if bound[0] == bound[1]:
        formula, inputs = _roofline(model, stay, resident_tokens, ends, share)
    else:
        formula, inputs = _line(model, stay, resident_tokens, below)
    return Step("stepSeconds", significant(stay.step_seconds), "seconds", formula, inputs)


def _roofline(
    model: StepTime, stay: Residence, resident_tokens: float, ends: tuple[int, int], share: float
) -> tuple[str, Inputs]:
    low, high = (model.weight_seconds(n) for n in ends)
    weights = low + share * (high - low)
    sequences = max(1.0, stay.batch)
    batch = "plannedBatch" if stay.batch >= 1 else "max(1, plannedBatch)"
    kept = model.kv_token * resident_tokens + model.kv_sequence
    work = model.compute_token + model.compute_pair * resident_tokens
    of_states = " + secondsToReadSequence" if model.kv_sequence else ""
    formula = (
        "fixedSeconds + max(readSeconds, computeSeconds) where "
        f"readSeconds = weightSeconds + {batch} * (residentTokens * secondsToReadToken{of_states}),"
        f" computeSeconds = {batch} * (secondsPerToken + residentTokens * secondsPerPair)"
    )
    return (
        formula,
        (
            ("fixedSeconds", significant(model.fixed)),
            ("readSeconds", significant(weights + sequences * kept)),
            ("computeSeconds", significant(sequences * work)),
            ("weightSeconds", significant(weights)),
            ("plannedBatch", significant(stay.batch)),
            ("residentTokens", significant(resident_tokens)),
            ("secondsToReadToken", significant(model.kv_token)),
            *(
                (("secondsToReadSequence", significant(model.kv_sequence)),)
                if model.kv_sequence
                else ()
            ),
            ("secondsPerToken", significant(model.compute_token)),
            ("secondsPerPair", significant(model.compute_pair)),
        ),
    )


def _line(
    model: StepTime, stay: Residence, resident_tokens: float, below: int
) -> tuple[str, Inputs]:
    first, second = (
        model.seconds(decode_sequences=n, resident_tokens=round(n * resident_tokens))
        for n in (below, below + 1)
    )
    formula = (
        "batchSeconds + (plannedBatch - batch) * (nextSeconds - batchSeconds); between whole "
        "batches of residentTokens each, where reading and computing take as long"
    )
    return (
        formula,
        (
            ("batchSeconds", significant(first)),
            ("nextSeconds", significant(second)),
            ("plannedBatch", significant(stay.batch)),
            ("batch", below),
            ("residentTokens", significant(resident_tokens)),
        ),
    )
