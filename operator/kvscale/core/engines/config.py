"""How an engine was started: the settings that decide its KV capacity."""

from dataclasses import dataclass
from enum import StrEnum

from kvscale.core.engines.options import SGLangOptions, TensorRtLlmOptions

AUTO_LENGTH = -1
"""A `max_model_len` that the engine shortens to what fits: `--max-model-len -1`, or `auto`."""


class EngineKind(StrEnum):
    """Engines whose rules stand in this package."""

    VLLM = "vLLM"
    SGLANG = "SGLang"
    TENSORRT_LLM = "TensorRT-LLM"

    @classmethod
    def named(cls, text: str) -> "EngineKind | None":
        """The engine that a person means by "vllm", "SGLang", "trtllm", ...; None if none."""
        bare = "".join(letter for letter in text.lower() if letter.isalnum())
        return {
            "vllm": cls.VLLM,
            "sglang": cls.SGLANG,
            "trtllm": cls.TENSORRT_LLM,
            "tensorrtllm": cls.TENSORRT_LLM,
        }.get(bare)


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
        max_model_len: longest sequence in tokens; `AUTO_LENGTH`: what fits.
        max_num_seqs: largest running batch in sequences.
        max_num_batched_tokens: token budget of one step.
        block_size: tokens per KV block.
        num_gpu_blocks_override: `--num-gpu-blocks-override`.
        enforce_eager: no CUDA graphs.
        quantization: `--quantization`, if stated.
        dtype: `--dtype`; "auto" takes the model's.
        prefix_caching: None: the engine's default.
        decode_context_parallel: ranks among the tensor-parallel ones that share out the tokens.
        hybrid_kv_cache_manager: False: windows and chunks are kept whole.
        expert_parallel: experts are shared out over the ranks whole, not cut.
        mamba_cache_dtype: of convolution states; "auto" takes the activations'.
        mamba_ssm_cache_dtype: of recurrent states; "auto" takes what the model asks for.
        speculative_tokens: tokens that a drafter proposes per step; 0: none.
        speculative_method: "mtp", "eagle3", "ngram", ...; "" if there is no drafter.
        speculative_model: the drafter, where it is a checkpoint of its own; "" if it is none.
        options: what only this engine has; None: its defaults.
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
    decode_context_parallel: int = 1
    hybrid_kv_cache_manager: bool = True
    expert_parallel: bool = False
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    speculative_tokens: int = 0
    speculative_method: str = ""
    speculative_model: str = ""
    options: SGLangOptions | TensorRtLlmOptions | None = None

    @property
    def devices(self) -> int:
        """Devices of one engine (one KV pool)."""
        return self.tensor_parallel * self.pipeline_parallel
