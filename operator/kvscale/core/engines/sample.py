"""What an engine reports of itself, whichever engine it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What one engine reported of itself; None where its version does not report it.

    Attributes:
        engine: the data-parallel index, as the engine names it ("0").
        kv_usage: used blocks / usable blocks, 0 to 1.
        running: requests in the running batch.
        waiting: requests queued for capacity.
        preemptions_total, prompt_tokens_total, generation_tokens_total: counters.
        prefix_hits_total, prefix_queries_total: counters of prompt tokens.
        kv_blocks: total blocks the engine allocated (`num_gpu_blocks`).
        block_tokens: its block size.
        kv_cache_size_tokens: its own statement of capacity in tokens.
        reserved_blocks: those of `kv_blocks` that no sequence is given: vLLM's null block.
    """

    engine: str
    kv_usage: float
    running: int
    waiting: int
    preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    prefix_hits_total: float | None = None
    prefix_queries_total: float | None = None
    kv_blocks: int | None = None
    block_tokens: int | None = None
    kv_cache_size_tokens: int | None = None
    reserved_blocks: int = 1


PodMetrics = tuple[EngineSample, ...]
"""The samples of a pod's engines, by engine index; never empty when Known."""
