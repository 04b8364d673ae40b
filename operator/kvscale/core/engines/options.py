"""Settings that one engine alone has; those that every engine has are fields of `EngineConfig`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SGLangOptions:
    """Settings of an SGLang server (sglang 0.4 to 0.5.23, srt/server_args.py); None: its default.

    Attributes:
        max_total_tokens: `--max-total-tokens`, a cap on the KV pool in tokens.
        dp_attention: `--enable-dp-attention`: the data-parallel ranks share one tensor-parallel
            group, so `EngineConfig.tensor_parallel` is the group's size over their number.
        graph_batch: `--cuda-graph-max-bs`, largest decode batch with a CUDA graph.
        prefill_graphs: whether prefill is captured; None: the version's default.
        attention_backend: `--attention-backend`; "" where not stated.
        deepep: `--moe-a2a-backend deepep`.
        speculative: `--speculative-algorithm` in capitals; "" where there is none.
        draft_layers: KV layers of the draft model; None: not known.
        swa_ratio_ppm: `--swa-full-tokens-ratio` in millionths.
        hybrid_swa: False with `--disable-hybrid-swa-memory`.
        mamba_ratio_milli: `--mamba-full-memory-ratio` in thousandths.
        max_mamba_cache_size: `--max-mamba-cache-size`, state slots.
        mamba_strategy: `--mamba-radix-cache-strategy` (`--mamba-scheduler-strategy` before
            0.5.14).
        overlap: False with `--disable-overlap-schedule`.
    """

    max_total_tokens: int | None = None
    dp_attention: bool = False
    graph_batch: int | None = None
    prefill_graphs: bool | None = None
    attention_backend: str = ""
    deepep: bool = False
    speculative: str = ""
    draft_layers: int | None = None
    swa_ratio_ppm: int | None = None
    hybrid_swa: bool = True
    mamba_ratio_milli: int | None = None
    max_mamba_cache_size: int | None = None
    mamba_strategy: str = "auto"
    overlap: bool = True


@dataclass(frozen=True, slots=True)
class TensorRtLlmOptions:
    """Settings of a TensorRT-LLM server (tensorrt_llm/llmapi/llm_args.py); None: its default.

    Attributes:
        max_tokens: `kv_cache_config.max_tokens`, a cap on the KV pool in tokens.
        max_gpu_total_bytes: `kv_cache_config.max_gpu_total_bytes`, a cap in bytes per device.
        max_attention_window: `kv_cache_config.max_attention_window`, repeated over the layers;
            () where not stated.
        attention_dp: `enable_attention_dp`: attention is replicated, each rank holds its own
            sequences.
        backend: "pytorch", "tensorrt" or "_autodeploy".
    """

    max_tokens: int | None = None
    max_gpu_total_bytes: int | None = None
    max_attention_window: tuple[int, ...] = ()
    attention_dp: bool = False
    backend: str = "pytorch"
