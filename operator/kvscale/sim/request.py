"""What goes into a simulated engine and what comes out of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One completion that a client asks for.

    Attributes:
        id: unique within a simulation.
        arrived_at: seconds of the client's first attempt; latencies are measured from here.
        prompt_tokens: at least 1.
        output_tokens: how many tokens the answer has; at least 1.
    """

    id: int
    arrived_at: float
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        """Refuse lengths that no engine knows."""
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                f"request {self.id}: prompt_tokens and output_tokens must be at least 1,"
                f" not {self.prompt_tokens} and {self.output_tokens}"
            )

    @property
    def longest(self) -> int:
        """Tokens in the KV cache at the end: the last token's KV is never computed."""
        return self.prompt_tokens + self.output_tokens - 1


@dataclass(frozen=True, slots=True)
class Finished:
    """An answered request.

    Attributes:
        first_token_at, finished_at: seconds.
        preemptions: how often an engine took its blocks away, over all attempts.
        attempts: 1, and one more for each engine that was removed under it.
    """

    request: Request
    first_token_at: float
    finished_at: float
    preemptions: int = 0
    attempts: int = 1

    @property
    def time_to_first_token(self) -> float:
        """Seconds from the client's first attempt to the first token."""
        return self.first_token_at - self.request.arrived_at


@dataclass(frozen=True, slots=True)
class Gauges:
    """What an engine says of itself at one moment; counters since it started.

    Attributes:
        used_blocks, usable_blocks: KV blocks; the reserved ones are in neither.
        prompt_tokens_total: counted with a request's first token, once, as vLLM does.
        finished_total: requests that were answered.
    """

    running: int
    waiting: int
    used_blocks: int
    usable_blocks: int
    preemptions_total: int
    prompt_tokens_total: int
    generation_tokens_total: int
    finished_total: int

    @property
    def kv_usage(self) -> float:
        """Used over usable blocks, 0 to 1."""
        return self.used_blocks / self.usable_blocks
