"""Whether vLLM starts: every rule of `start` in the order in which a person mends them."""

from kvscale.core.engines.vllm import absent, caches, division, drafting, kernels, releases
from kvscale.core.engines.vllm.start import Rule, Start
from kvscale.core.refusal import Refusal

RULES: tuple[Rule, ...] = (
    *releases.RULES, *drafting.RULES, *absent.RULES, *division.RULES, *kernels.RULES,
    *caches.RULES,
)  # fmt: skip


def first_refusal(start: Start) -> Refusal | None:
    """The first reason why the engine does not start; None where it does.

    Args:
        start: the engine.
    """
    for rule in RULES:
        refusal = rule(start)
        if refusal is not None:
            return refusal
    return None
