"""How a simulated engine is set up."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.sim.request import Request


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """A simulated engine's limits and speed.

    Attributes:
        kv_blocks: blocks that the engine allocates.
        block_tokens: tokens of one block.
        max_num_seqs: largest running batch.
        max_num_batched_tokens: token budget of one step.
        max_model_len: longest sequence; longer requests are refused.
        step: how long a step takes.
        reserved_blocks: blocks that no sequence is given (vLLM's null block).
    """

    kv_blocks: int
    block_tokens: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    step: StepTime
    reserved_blocks: int = 1

    def __post_init__(self) -> None:
        """Refuse what an engine would refuse at its start."""
        for name in ("block_tokens", "max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least"
                f" max_num_seqs ({self.max_num_seqs}), or some sequences would never decode"
            )
        if self.step.fixed <= 0:
            raise ValueError("step.fixed must be above 0: a step that takes no time never ends")
        if self.usable_blocks < self.blocks(self.max_model_len):
            raise ValueError(
                f"kv_blocks ({self.kv_blocks}) hold no sequence of max_model_len"
                f" ({self.max_model_len}); lower max_model_len or give more blocks"
            )

    @classmethod
    def of(cls, capacity: EngineCapacity, step: StepTime) -> "EngineSettings":
        """The engine that a capacity describes, at its expected number of blocks."""
        return cls(
            kv_blocks=capacity.kv_blocks.expected,
            block_tokens=capacity.block_tokens,
            max_num_seqs=capacity.max_num_seqs,
            max_num_batched_tokens=capacity.max_num_batched_tokens,
            max_model_len=capacity.max_model_len,
            step=step,
            reserved_blocks=capacity.reserved_blocks,
        )

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can be given."""
        return self.kv_blocks - self.reserved_blocks

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens of one sequence."""
        return -(-tokens // self.block_tokens)

    def accepts(self, request: Request) -> bool:
        """Whether the engine would serve it at all; if not, it answers 400."""
        return request.prompt_tokens + request.output_tokens <= self.max_model_len
