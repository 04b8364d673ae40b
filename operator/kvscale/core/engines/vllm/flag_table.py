"""The server flags of vLLM that decide KV capacity, and the flags beside them.

Names: vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py, versions 0.8 to 0.33.
"""

from types import MappingProxyType

from kvscale.core.engines.flag import Flag, FlagTable, Kind

__all__ = ["FLAGS", "VLLM_FLAGS", "Flag", "Kind"]

FLAGS = (
    Flag("--model", Kind.TEXT, "model"),
    Flag("--tensor-parallel-size", Kind.COUNT, "tensor_parallel", overridable=True),
    Flag("--pipeline-parallel-size", Kind.COUNT, "pipeline_parallel", overridable=True),
    Flag("--data-parallel-size", Kind.COUNT, "data_parallel", overridable=True),
    Flag("--gpu-memory-utilization", Kind.FRACTION, "memory_utilization_milli", overridable=True),
    Flag("--kv-cache-memory-bytes", Kind.SIZE, "kv_cache_memory_bytes", overridable=True),
    Flag("--kv-cache-dtype", Kind.TEXT, "kv_cache_dtype", overridable=True),
    Flag("--max-model-len", Kind.LENGTH, "max_model_len", overridable=True),
    Flag("--max-num-seqs", Kind.SIZE, "max_num_seqs", overridable=True),
    Flag("--max-num-batched-tokens", Kind.SIZE, "max_num_batched_tokens", overridable=True),
    Flag("--block-size", Kind.COUNT, "block_size", overridable=True),
    Flag("--num-gpu-blocks-override", Kind.COUNT, "num_gpu_blocks_override"),
    Flag("--quantization", Kind.TEXT, "quantization"),
    Flag("--dtype", Kind.TEXT, "dtype"),
    Flag("--enforce-eager", Kind.SWITCH, "enforce_eager"),
    Flag("--enable-prefix-caching", Kind.SWITCH, "prefix_caching"),
    Flag("--served-model-name", Kind.TEXT),
    Flag("--port", Kind.COUNT),
    Flag("--config", Kind.TEXT),
    Flag("--kv-transfer-config", Kind.TEXT),
    Flag("--data-parallel-size-local", Kind.COUNT),
    Flag("--data-parallel-rank", Kind.TEXT),
    Flag("--nnodes", Kind.COUNT),
    Flag("--decode-context-parallel-size", Kind.COUNT, "decode_context_parallel"),
    Flag("--prefill-context-parallel-size", Kind.COUNT),
    Flag("--speculative-config", Kind.TEXT),
    Flag("--speculative-model", Kind.TEXT),
    Flag("--spec-method", Kind.TEXT),
    Flag("--spec-model", Kind.TEXT),
    Flag("--spec-tokens", Kind.TEXT),
    Flag("--enable-lora", Kind.SWITCH),
    Flag("--cpu-offload-gb", Kind.TEXT),
    Flag("--hf-overrides", Kind.TEXT),
    Flag("--disable-hybrid-kv-cache-manager", Kind.SWITCH),
    Flag("--enable-expert-parallel", Kind.SWITCH, "expert_parallel"),
    Flag("--mamba-cache-dtype", Kind.TEXT, "mamba_cache_dtype"),
    Flag("--mamba-ssm-cache-dtype", Kind.TEXT, "mamba_ssm_cache_dtype"),
    Flag("--headless", Kind.SWITCH),
)
BY_NAME = MappingProxyType({flag.name: flag for flag in FLAGS})

SHORT = MappingProxyType(
    {
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-dpl": "--data-parallel-size-local",
        "-dpn": "--data-parallel-rank",
        "-dcp": "--decode-context-parallel-size",
        "-pcp": "--prefill-context-parallel-size",
        "-q": "--quantization",
        "-n": "--nnodes",
        "-sc": "--speculative-config",
    }
)
_SWITCH_NAMES = """
    --trust-remote-code --enable-chunked-prefill --enable-auto-tool-choice
    --disable-log-requests --disable-log-stats --enable-log-requests --enable-log-outputs
    --async-scheduling --enable-sleep-mode --enable-reasoning --return-tokens-as-token-ids
    --enable-prompt-tokens-details --enable-server-load-tracking --disable-sliding-window
    --fully-sharded-loras --disable-uvicorn-access-log --disable-fastapi-docs --enable-eplb
    --disable-custom-all-reduce --disable-frontend-multiprocessing --use-v2-block-manager
    --skip-tokenizer-init --calculate-kv-scales --data-parallel-hybrid-lb --enable-dbo
    --data-parallel-external-lb --scheduler-reserve-full-isl --enable-lora-bias
    --allow-credentials --enable-request-id-headers --enable-ssl-refresh --use-tqdm-on-load
"""
_NEIGHBOUR_NAMES = """
    --max-num-partial-prefills --max-long-partial-prefills --max-logprobs --max-seq-len-to-capture
    --max-loras --max-lora-rank --max-cpu-loras --max-log-len --kv-cache-metrics
    --kv-cache-dtype-skip-layers --kv-events-config --kv-offloading-size --kv-offloading-backend
    --kv-sharing-fast-prefill --model-impl --model-loader-extra-config --data-parallel-start-rank
    --data-parallel-address --data-parallel-rpc-port --data-parallel-backend --config-format
    --hf-config-path --hf-token --node-rank --num-lookahead-slots --num-scheduler-steps
    --seed --host --pooler-config
"""
SWITCHES = frozenset(
    {
        *_SWITCH_NAMES.split(),
        *(flag.name for flag in FLAGS if flag.kind is Kind.SWITCH),
    }
)
"""Flags without a value: what follows them may be the positional model."""
KNOWN_NAMES = frozenset({*BY_NAME, *SWITCHES, *_NEIGHBOUR_NAMES.split()})
"""Long names among which a prefix must be unambiguous."""
VLLM_FLAGS = FlagTable(
    by_name=BY_NAME,
    known=KNOWN_NAMES,
    short=SHORT,
    switches=SWITCHES,
    several=frozenset({"--served-model-name"}),
)
