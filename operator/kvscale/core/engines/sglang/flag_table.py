"""The server flags of SGLang that decide KV capacity.

Names: sglang/srt/server_args.py, versions 0.4 to 0.5.23; arg_groups/fields from 0.5.20.
"""

from types import MappingProxyType

from kvscale.core.engines.flag import Flag, FlagTable, Kind

FLAGS = (
    Flag("--model-path", Kind.TEXT, "model"),
    Flag("--tp-size", Kind.COUNT, "tensor_parallel", overridable=True),
    Flag("--pp-size", Kind.COUNT, "pipeline_parallel", overridable=True),
    Flag("--dp-size", Kind.COUNT, "data_parallel", overridable=True),
    Flag("--mem-fraction-static", Kind.FRACTION, "memory_utilization_milli", overridable=True),
    Flag("--kv-cache-dtype", Kind.TEXT, "kv_cache_dtype", overridable=True),
    Flag("--context-length", Kind.COUNT, "max_model_len", overridable=True),
    Flag("--max-running-requests", Kind.COUNT, "max_num_seqs", overridable=True),
    Flag("--chunked-prefill-size", Kind.CHUNK, "max_num_batched_tokens", overridable=True),
    Flag("--page-size", Kind.COUNT, "block_size", overridable=True),
    Flag("--quantization", Kind.TEXT, "quantization"),
    Flag("--dtype", Kind.TEXT, "dtype"),
    Flag("--disable-cuda-graph", Kind.SWITCH, "enforce_eager"),
    Flag("--speculative-num-draft-tokens", Kind.COUNT, "speculative_tokens"),
    Flag("--mamba-ssm-dtype", Kind.TEXT, "mamba_ssm_cache_dtype"),
    Flag("--dcp-size", Kind.COUNT, "decode_context_parallel"),
)
"""Settings that every engine has, as fields of `EngineConfig`."""

OPTIONS = (
    Flag("--max-total-tokens", Kind.COUNT, "max_total_tokens"),
    Flag("--enable-dp-attention", Kind.SWITCH, "dp_attention"),
    Flag("--cuda-graph-max-bs", Kind.COUNT, "graph_batch"),
    Flag("--attention-backend", Kind.TEXT, "attention_backend"),
    Flag("--max-mamba-cache-size", Kind.COUNT, "max_mamba_cache_size"),
    Flag("--mamba-radix-cache-strategy", Kind.TEXT, "mamba_strategy"),
)
"""Settings of SGLang alone, as fields of `SGLangOptions`."""

_OTHERS = (
    Flag("--served-model-name", Kind.TEXT),
    Flag("--port", Kind.COUNT),
    Flag("--config", Kind.TEXT),
    Flag("--disaggregation-mode", Kind.TEXT),
    Flag("--speculative-algorithm", Kind.TEXT),
    Flag("--moe-a2a-backend", Kind.TEXT),
    Flag("--mamba-full-memory-ratio", Kind.TEXT),
    Flag("--swa-full-tokens-ratio", Kind.TEXT),
    Flag("--nnodes", Kind.COUNT),
    Flag("--cpu-offload-gb", Kind.TEXT),
    Flag("--json-model-override-args", Kind.TEXT),
    Flag("--disable-radix-cache", Kind.SWITCH),
    Flag("--disable-hybrid-swa-memory", Kind.SWITCH),
    Flag("--disable-overlap-schedule", Kind.SWITCH),
    Flag("--enable-piecewise-cuda-graph", Kind.SWITCH),
    Flag("--disable-piecewise-cuda-graph", Kind.SWITCH),
    Flag("--enable-hierarchical-cache", Kind.SWITCH),
    Flag("--enable-lora", Kind.SWITCH),
    Flag("--enable-unified-memory", Kind.SWITCH),
)
_ALIASES = {
    "--model": "--model-path",
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--pp": "--pp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--dp": "--dp-size",
    "--data-parallel-size": "--dp-size",
    "--dcp": "--dcp-size",
    "--decode-context-parallel-size": "--dcp-size",
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
    "--cuda-graph-max-bs-decode": "--cuda-graph-max-bs",
}
_SWITCHES = """
    --trust-remote-code --enable-metrics --enable-p2p-check
    --enable-torch-compile --is-embedding
    --disable-cuda-graph-padding --disable-outlines-disk-cache
    --disable-custom-all-reduce --log-requests
    --enable-mixed-chunk --enable-ep-moe --enable-deepep-moe --enable-two-batch-overlap
    --enable-memory-saver --allow-auto-truncate
    --enable-custom-logit-processor --skip-tokenizer-init
    --enable-cache-report --enable-flashinfer-mla --enable-mla --disable-mla --skip-server-warmup
    --enable-symm-mem --enable-multimodal --enable-eplb --disable-shared-experts-fusion
    --enable-dp-lm-head --enable-nccl-nvls --show-time-cost --enable-nan-detection
    --disable-chunked-prefix-cache --disable-fast-image-processor --disable-flashinfer-autotune
    --enable-request-time-stats-logging --enable-single-batch-overlap --language-only
"""
_NEIGHBOURS = """
    --tokenizer-path --tokenizer-mode --load-format --host --reasoning-parser --tool-call-parser
    --chat-template --ep-size --ep --max-prefill-tokens --max-queued-requests --schedule-policy
    --schedule-conservativeness --stream-interval --random-seed --watchdog-timeout --log-level
    --node-rank --dist-init-addr --dist-timeout --sampling-backend --grammar-backend
    --prefill-attention-backend --decode-attention-backend --mm-attention-backend
    --speculative-draft-model-path --speculative-num-steps --speculative-eagle-topk
    --moe-runner-backend --deepep-mode --deepep-config --hicache-ratio --hicache-size
    --disaggregation-ib-device --disaggregation-transfer-backend --disaggregation-bootstrap-port
    --cuda-graph-bs --piecewise-cuda-graph-tokens --piecewise-cuda-graph-max-tokens --lora-paths
    --max-loras-per-batch --model-loader-extra-config --preferred-sampling-params --revision
    --moe-dense-tp-size --ep-num-redundant-experts --ep-dispatch-algorithm --api-key --device
    --mamba-track-interval --mamba-backend --linear-attn-backend --fp8-gemm-backend
    --kv-events-config --decode-log-interval --model-impl
    --download-dir
    --constrained-json-whitespace-pattern
"""
_READ = (*FLAGS, *OPTIONS, *_OTHERS)
_SWITCH_NAMES = frozenset({
    *_SWITCHES.split(), *(flag.name for flag in _READ if flag.kind is Kind.SWITCH),
})  # fmt: skip

SGLANG_FLAGS = FlagTable(
    by_name=MappingProxyType({flag.name: flag for flag in _READ}),
    known=frozenset({*(flag.name for flag in _READ), *_SWITCH_NAMES, *_NEIGHBOURS.split()}),
    short=MappingProxyType(_ALIASES),
    switches=_SWITCH_NAMES,
)
