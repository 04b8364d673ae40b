"""What TensorRT-LLM reports of itself: the series of one pod to a sample of its engine.

trtllm-serve of 2026 shows them at /prometheus/metrics (tensorrt_llm/metrics/collector.py); its
/metrics is a JSON list. Older builds and Triton show other families, which are not read.
"""

from collections.abc import Iterable

from kvscale.core.engines.metric_series import (
    EXACT,
    Series,
    UnreadableError,
    checked,
    counter,
    of_model,
)
from kvscale.core.engines.sample import EngineSample, PodMetrics
from kvscale.core.values import Unknown

KV_UTILIZATION = "trtllm_kv_cache_utilization"
"""Used blocks / blocks, 0 to 1."""
RUNNING = "trtllm_num_requests_running"
WAITING = "trtllm_num_requests_waiting"
MAX_BLOCKS = "trtllm_kv_cache_max_blocks"
BLOCK_TOKENS = "trtllm_kv_cache_tokens_per_block"
PROMPT_TOKENS = "trtllm_prompt_tokens_total"
GENERATION_TOKENS = "trtllm_generation_tokens_total"

SERIES_NAMES = (
    KV_UTILIZATION,
    RUNNING,
    WAITING,
    MAX_BLOCKS,
    BLOCK_TOKENS,
    PROMPT_TOKENS,
    GENERATION_TOKENS,
)
ENGINE_LABELS = frozenset({"model_name", "engine_type"})
"""Labels that TensorRT-LLM itself writes; both read "undefined" in real pages."""

_UNNAMED = frozenset({"", "undefined"})


def read_trtllm_pod(series: Iterable[Series], served_model_name: str = "") -> PodMetrics | Unknown:
    """The sample of a pod's engine; Unknown as `core.engines.metrics.read_pod` says."""
    names = frozenset(SERIES_NAMES)
    ours = [one for one in series if one.name in names]
    if all(one.labels.get("model_name", "") in _UNNAMED for one in ours):
        served_model_name = ""
    try:
        return (_sample(of_model(ours, served_model_name)),)
    except UnreadableError as error:
        return error.unknown


def _sample(series: list[Series]) -> EngineSample:
    values: dict[str, float] = {}
    for one in series:
        if one.name in values:
            raise UnreadableError(
                "DuplicateSeries",
                f"{one.name} is there twice; metrics.path must show one server, not a collector of"
                " several",
            )
        values[one.name] = one.value

    def whole(name: str) -> int | None:
        value = values.get(name)
        if value is None:
            return None
        if not checked(value, name, "0", EXACT).is_integer():
            raise UnreadableError("InvalidSeries", f"{name} is not a whole number")
        return int(value)

    def needed(name: str) -> float:
        if name not in values:
            raise UnreadableError("IncompleteSeries", f"the server shows no {name}")
        return values[name]

    usage = checked(needed(KV_UTILIZATION), KV_UTILIZATION, "0", 1.0)
    needed(RUNNING)
    needed(WAITING)
    blocks, tokens = whole(MAX_BLOCKS) or None, whole(BLOCK_TOKENS) or None
    return EngineSample(
        engine="0",
        kv_usage=usage,
        running=whole(RUNNING) or 0,
        waiting=whole(WAITING) or 0,
        prompt_tokens_total=counter(values.get(PROMPT_TOKENS)),
        generation_tokens_total=counter(values.get(GENERATION_TOKENS)),
        kv_blocks=blocks,
        block_tokens=tokens,
        reserved_blocks=0,
        kv_cache_size_tokens=blocks * tokens if blocks and tokens else None,
    )
