"""How an engine was started: the settings that decide its KV capacity."""

from dataclasses import dataclass
from enum import StrEnum


class EngineKind(StrEnum):
    """Engines whose rules stand in this package."""

    VLLM = "vLLM"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine; None means "the engine's own default".

    Attributes:
        kind: which engine.
        version: "0.32", "0.32.0"; None: not known, the newest rules apply and the trace says so.
        model: what `--model` or the positional argument names; "" if not stated.
        tensor_parallel: devices that split each layer.
        pipeline_parallel: stages that split the layers.
        data_parallel: engines in one pod, each with its own KV pool.
        memory_utilization_milli: `--gpu-memory-utilization` in thousandths.
        kv_cache_memory_bytes: `--kv-cache-memory-bytes`, per device; makes the budget exact.
        kv_cache_dtype: `auto`, `fp8`, `fp8_e4m3`, `fp8_e5m2`, `bfloat16`, ...
        max_model_len: longest sequence in tokens.
        max_num_seqs: largest running batch in sequences.
        max_num_batched_tokens: token budget of one step.
        block_size: tokens per KV block.
        num_gpu_blocks_override: `--num-gpu-blocks-override`.
        enforce_eager: no CUDA graphs.
        quantization: `--quantization`, if stated.
        dtype: `--dtype`; "auto" takes the model's.
        prefix_caching: None: the engine's default.
    """

    kind: EngineKind = EngineKind.VLLM
    version: str | None = None
    model: str = ""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    memory_utilization_milli: int | None = None
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    num_gpu_blocks_override: int | None = None
    enforce_eager: bool = False
    quantization: str | None = None
    dtype: str = "auto"
    prefix_caching: bool | None = None

    @property
    def devices(self) -> int:
        """Devices of one engine (one KV pool)."""
        return self.tensor_parallel * self.pipeline_parallel
