"""What a pod's engine reports of itself, whichever engine it is: told by the names of its series.

Pure: where the series come from (a scrape, Prometheus) is the adapters' business.
"""

from collections.abc import Callable, Iterable

from kvscale.core.engines.metric_series import Series
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.engines.sglang import metrics as sglang
from kvscale.core.engines.trtllm import metrics as trtllm
from kvscale.core.engines.vllm import metrics as vllm
from kvscale.core.values import Unknown

__all__ = ["ENGINE_LABELS", "SERIES_NAMES", "USAGE_NAMES", "Series", "read_pod"]

_ENGINES: tuple[
    tuple[str, tuple[str, ...], Callable[[Iterable[Series], str], PodMetrics | Unknown]], ...
] = (
    ("vLLM", vllm.SERIES_NAMES, vllm.read_pod),
    ("SGLang", sglang.SERIES_NAMES, sglang.read_sglang_pod),
    ("TensorRT-LLM", trtllm.SERIES_NAMES, trtllm.read_trtllm_pod),
)
SERIES_NAMES = tuple(name for _, names, _ in _ENGINES for name in names)
"""Every series that is read, as exposed: a source fetches these and no more."""

USAGE_NAMES = (
    vllm.KV_USAGE,
    vllm.KV_USAGE_V0,
    sglang.TOKEN_USAGE,
    trtllm.KV_UTILIZATION,
)
"""The series that each engine always shows one of: what says when a pod was sampled."""

ENGINE_LABELS = vllm.ENGINE_LABELS | sglang.ENGINE_LABELS | trtllm.ENGINE_LABELS
"""Labels that the engines themselves write."""


def read_pod(series: Iterable[Series], served_model_name: str = "") -> PodMetrics | Unknown:
    """The samples of a pod's engines, by engine index.

    Args:
        series: what the pod exposes; names outside `SERIES_NAMES` are passed over.
        served_model_name: the only `model_name` that counts; "": the pod may show just one.

    Returns:
        At least one sample, or Unknown: NoEngineSeries, SeveralEngines, SeveralModels,
        ModelNotServed, IncompleteSeries, DuplicateSeries, InvalidSeries, EngineAsleep.
    """
    shown = tuple(series)
    present = {one.name for one in shown}
    found = [engine for engine in _ENGINES if not present.isdisjoint(engine[1])]
    if len(found) == 1:
        return found[0][2](shown, served_model_name)
    if found:
        names = " and ".join(engine[0] for engine in found)
        return Unknown(
            "SeveralEngines",
            f"the endpoint shows series of {names}; metrics.port and metrics.path must show one"
            " server",
        )
    return Unknown(
        "NoEngineSeries",
        "the endpoint answers but shows no series of an engine: start vLLM without"
        " --disable-log-stats and SGLang with --enable-metrics, set metrics.path"
        " /prometheus/metrics for trtllm-serve, or correct metrics.port and metrics.path",
    )
