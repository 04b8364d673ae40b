"""What vLLM reports of itself, in any version: the series of one pod to a sample per engine.

Pure: where the series come from (a scrape, Prometheus) is the adapters' business. A series that
is absent, NaN, infinite or out of range makes the pod Unknown; it never reads as 0. Messages name
the series and the flaw, never what a server wrote.

Names and when they changed: vLLM 0.2.7 to 0.32.0, vllm/engine/metrics.py (V0) and
vllm/v1/metrics/loggers.py (V1). The V0 engine labels its series with `model_name` alone; V1 adds
`engine`, the data-parallel index, and one server shows one series of a name for each of them.
"""

import re
from collections.abc import Iterable, Mapping

from kvscale.core.engines.metric_series import (
    EXACT,
    Series,
    UnreadableError,
    checked,
    counter,
    of_model,
    positive,
)
from kvscale.core.engines.sample import EngineSample, PodMetrics
from kvscale.core.engines.vllm.rules import RESERVED_BLOCKS
from kvscale.core.values import Unknown

KV_USAGE = "vllm:kv_cache_usage_perc"
"""Used / usable blocks, 0 to 1 in spite of its name (from 0.9.2)."""
KV_USAGE_V0 = "vllm:gpu_cache_usage_perc"
"""The same under its first name (0.2.7 to 0.11, both names in between)."""
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
"""From 0.20: `reason` is capacity (no blocks, no batch slot) or deferred (waits for an event)."""
SLEEP_STATE = "vllm:engine_sleep_state"
"""From 0.12: 1 for the state that holds; a sleeping engine goes on reporting no load."""
CACHE_CONFIG = "vllm:cache_config_info"
"""Always 1; the facts are its labels, as strings, with the text "None" for what is unset."""
PREEMPTIONS = "vllm:num_preemptions_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
GENERATION_TOKENS = "vllm:generation_tokens_total"
PREFIX_HITS = "vllm:prefix_cache_hits_total"
PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
"""In prompt tokens. Their forerunners `vllm:gpu_prefix_cache_*` began in blocks: not read."""

SERIES_NAMES = (
    KV_USAGE,
    KV_USAGE_V0,
    RUNNING,
    WAITING,
    WAITING_BY_REASON,
    SLEEP_STATE,
    CACHE_CONFIG,
    PREEMPTIONS,
    PROMPT_TOKENS,
    GENERATION_TOKENS,
    PREFIX_HITS,
    PREFIX_QUERIES,
)
"""Every series that is read, as exposed: a source fetches these and no more."""

ENGINE_LABELS = frozenset({"engine", "model_name", "reason", "sleep_state"})
"""Labels that vLLM itself writes on the gauges and counters above."""

_ENGINE_INDEX = re.compile(r"[0-9]{1,4}")


def read_pod(series: Iterable[Series], served_model_name: str = "") -> PodMetrics | Unknown:
    """The samples of a pod's engines, by engine index.

    Args:
        series: what the pod exposes; names outside `SERIES_NAMES` are passed over.
        served_model_name: the only `model_name` that counts; "": the pod may show just one.

    Returns:
        At least one sample, or Unknown: NoEngineSeries, SeveralModels, ModelNotServed,
        IncompleteSeries, DuplicateSeries, InvalidSeries, EngineAsleep.
    """
    names = frozenset(SERIES_NAMES)
    ours = [one for one in series if one.name in names]
    if not ours:
        return Unknown(
            "NoEngineSeries",
            "the endpoint answers but shows no vllm: series; start vLLM without"
            " --disable-log-stats, or correct metrics.port and metrics.path",
        )
    try:
        pod = _Pod(of_model(ours, served_model_name))
        return tuple(pod.sample(engine) for engine in pod.engines)
    except UnreadableError as error:
        return error.unknown


class _Pod:
    """The series of one pod, by engine."""

    def __init__(self, series: list[Series]) -> None:
        self._values: dict[tuple[str, str, str], float] = {}
        self._config: dict[str, Mapping[str, str]] = {}
        engines: set[str] = set()
        for one in series:
            labels = one.labels
            if one.name == CACHE_CONFIG:
                self._config[labels.get("engine", "")] = labels
                continue
            engine = labels.get("engine", "0")
            if not _ENGINE_INDEX.fullmatch(engine):
                raise UnreadableError(
                    "InvalidSeries", f"the engine label of {one.name} is not a number"
                )
            key = (one.name, engine, labels.get("reason", labels.get("sleep_state", "")))
            if key in self._values:
                raise UnreadableError(
                    "DuplicateSeries",
                    f"{one.name} of engine {engine} is there twice; metrics.path must show one"
                    " server, not a collector of several",
                )
            self._values[key] = one.value
            engines.add(engine)
        if not engines:
            raise UnreadableError("IncompleteSeries", f"no {KV_USAGE} and no {KV_USAGE_V0}")
        self.engines = sorted(engines, key=int)

    def sample(self, engine: str) -> EngineSample:
        """What that engine reported."""
        if self._values.get((SLEEP_STATE, engine, "awake"), 1.0) == 0.0:
            raise UnreadableError(
                "EngineAsleep", f"engine {engine} sleeps and serves nothing; wake it by /wake_up"
            )
        config = self._config.get(engine, self._config.get("", {}))
        return EngineSample(
            engine=engine,
            kv_usage=self._usage(engine),
            running=self._count(RUNNING, engine),
            waiting=self._waiting(engine),
            preemptions_total=self._counter(PREEMPTIONS, engine),
            prompt_tokens_total=self._counter(PROMPT_TOKENS, engine),
            generation_tokens_total=self._counter(GENERATION_TOKENS, engine),
            prefix_hits_total=self._counter(PREFIX_HITS, engine),
            prefix_queries_total=self._counter(PREFIX_QUERIES, engine),
            kv_blocks=self._blocks(config),
            block_tokens=positive(config, "block_size"),
            reserved_blocks=RESERVED_BLOCKS,
            kv_cache_size_tokens=positive(config, "kv_cache_size_tokens"),
        )

    def _usage(self, engine: str) -> float:
        for name in (KV_USAGE, KV_USAGE_V0):
            value = self._values.get((name, engine, ""))
            if value is not None:
                return checked(value, name, engine, 1.0)
        raise UnreadableError(
            "IncompleteSeries", f"engine {engine} shows neither {KV_USAGE} nor {KV_USAGE_V0}"
        )

    def _count(self, name: str, engine: str, reason: str = "") -> int:
        value = self._values.get((name, engine, reason))
        if value is None:
            raise UnreadableError("IncompleteSeries", f"engine {engine} shows no {name}")
        if not checked(value, name, engine, EXACT).is_integer():
            raise UnreadableError(
                "InvalidSeries", f"{name} of engine {engine} is not a whole number"
            )
        return int(value)

    def _waiting(self, engine: str) -> int:
        """Requests queued for capacity: from 0.20 on the total counts the deferred ones too."""
        if (WAITING_BY_REASON, engine, "capacity") in self._values:
            return self._count(WAITING_BY_REASON, engine, "capacity")
        return self._count(WAITING, engine)

    def _counter(self, name: str, engine: str) -> float | None:
        return counter(self._values.get((name, engine, "")))

    def _blocks(self, config: Mapping[str, str]) -> int | None:
        """Blocks of one engine: a server with several shows their sum on each of them.

        Source: vLLM 0.9 to 0.32, vllm/v1/engine/utils.py and core_client.py, "Sum num_gpu_blocks
        from all engines in DP case"; `kv_cache_size_tokens` is not summed there.
        """
        total = positive(config, "num_gpu_blocks")
        return total // len(self.engines) or None if total is not None else None
