"""Where an engine's HTTP server shows its metrics, where nothing states it."""

from collections.abc import Mapping
from types import MappingProxyType

from kvscale.core.engines.config import EngineKind

DEFAULT_PORTS: Mapping[EngineKind, int] = MappingProxyType(
    {EngineKind.VLLM: 8000, EngineKind.SGLANG: 30_000, EngineKind.TENSORRT_LLM: 8000}
)
"""vllm v0.33.0 entrypoints/common/cli_args.py, sglang 0.5.23 srt/server_args.py, tensorrt_llm
commands/serve.py (`--port` of each)."""

DEFAULT_PATHS: Mapping[EngineKind, str] = MappingProxyType(
    {
        EngineKind.VLLM: "/metrics",
        EngineKind.SGLANG: "/metrics",
        EngineKind.TENSORRT_LLM: "/prometheus/metrics",
    }
)
"""trtllm-serve shows a JSON list at /metrics (tensorrt_llm/metrics/collector.py)."""
