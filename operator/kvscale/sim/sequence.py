"""A request inside a simulated engine."""

from kvscale.sim.request import Request


class Sequence:
    """A request and how far the engine is with it.

    Attributes:
        tokens: prompt and generated so far; while decoding, as of step `since`.
        computed: tokens of the present prefill that are in the cache.
        since: the step at which it began to decode; -1 while it does not.
        until: the step before which it is finished.
        remainder: see BlockDemand.
    """

    __slots__ = (
        "computed",
        "first_token_at",
        "preemptions",
        "remainder",
        "request",
        "since",
        "tokens",
        "until",
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tokens = request.prompt_tokens
        self.computed = 0
        self.since = -1
        self.until = -1
        self.remainder = 0
        self.first_token_at = -1.0
        self.preemptions = 0
