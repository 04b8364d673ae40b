"""An engine's state as vLLM prints it on /metrics.

Families, types, help texts and labels of three generations (source: vllm/v1/metrics/loggers.py
of 0.26 and 0.8.5, vllm/engine/metrics.py of 0.5.5). The text is made by the library that vLLM
uses, so that spelling, `_created` series and number format are the real ones. Latency histograms
and families that nothing of a simulated engine can fill are left out, and so are the labels of
`cache_config_info` that say nothing about its KV cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvscale.sim.request import Gauges
from kvscale.sim.settings import EngineSettings


class Names(StrEnum):
    """A generation of metric names."""

    CURRENT = "0.26"
    EARLY_V1 = "0.8.5"
    V0 = "0.5.5"


FINISH_REASONS = ("stop", "length", "abort", "error")
"""`FinishReason` of vllm/v1/engine; a simulated answer ends with "stop"."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """What an engine prints besides its state.

    Attributes:
        model_name: the served model name.
        names: which generation of names.
        cache_dtype: as started; "auto" may stand for anything, as in reality.
        gpu_memory_utilization: as started.
        kv_cache_size_tokens: the engine's own statement of its capacity; None as in versions
            before 0.24, which make none.
    """

    model_name: str
    names: Names = Names.CURRENT
    cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.92
    kv_cache_size_tokens: int | None = None


def metrics_text(
    engines: Sequence[Gauges],
    settings: EngineSettings,
    exposition: Exposition,
    started_at: float,
) -> str:
    """The body of /metrics of a pod.

    Args:
        engines: by data-parallel index; V0 knows but one.
        settings: of each of them.
        exposition: what is printed besides.
        started_at: epoch seconds of the pod's start, for the `_created` series.
    """
    if exposition.names is Names.V0 and len(engines) > 1:
        raise ValueError("the V0 engine has no data parallelism: one engine, not several")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(engines, settings, exposition, started_at))
    return generate_latest(registry).decode()


@dataclass(frozen=True, slots=True, eq=False)  # the registry tells collectors apart by identity
class _Page(Collector):
    engines: Sequence[Gauges]
    settings: EngineSettings
    exposition: Exposition
    started_at: float

    def collect(self) -> Iterator[Metric]:
        """The families in the order in which vLLM registers them."""
        match self.exposition.names:
            case Names.CURRENT:
                return self._current()
            case Names.EARLY_V1:
                return self._early_v1()
            case Names.V0:
                return self._v0()

    def _current(self) -> Iterator[Metric]:
        yield self._running("Number of requests in model execution batches.")
        yield self._waiting()
        waiting = GaugeMetricFamily(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for"
            " scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget,"
            " KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
            labels=(*self._label_names, "reason"),
        )
        for labels, gauges in self._series():
            waiting.add_metric((*labels, "capacity"), gauges.waiting)
            waiting.add_metric((*labels, "deferred"), 0)
        yield waiting
        yield self._usage("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        yield from self._prefix_cache(
            "vllm:prefix_cache",
            "Prefix cache queries, in terms of number of queried tokens.",
            "Prefix cache hits, in terms of number of cached tokens.",
        )
        yield from self._counters()
        yield self._cache_config("Information of the LLMEngine CacheConfig")

    def _early_v1(self) -> Iterator[Metric]:
        yield self._running("Number of requests in model execution batches.")
        yield self._waiting()
        yield self._usage(
            "vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage."
        )
        yield from self._prefix_cache(
            "vllm:gpu_prefix_cache",
            "GPU prefix cache queries, in terms of number of queried blocks.",
            "GPU prefix cache hits, in terms of number of cached blocks.",
        )
        yield from self._counters()
        yield self._cache_config("Information of the LLMEngine CacheConfig")

    def _v0(self) -> Iterator[Metric]:
        yield self._cache_config("information of cache_config")
        yield self._running("Number of requests currently running on GPU.")
        yield self._waiting()
        yield self._constant("vllm:num_requests_swapped", "Number of requests swapped to CPU.", 0.0)
        yield self._usage(
            "vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage."
        )
        yield self._constant(
            "vllm:cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.", 0.0
        )
        # V0 says -1 when prefix caching is off.
        yield self._constant(
            "vllm:cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate.", -1.0
        )
        yield self._constant(
            "vllm:gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", -1.0
        )
        yield from self._counters()

    @property
    def _label_names(self) -> tuple[str, ...]:
        return ("model_name",) if self.exposition.names is Names.V0 else ("engine", "model_name")

    @property
    def _created(self) -> float | None:
        """Dumps of V0 have no `_created` series."""
        return None if self.exposition.names is Names.V0 else self.started_at

    def _series(self) -> Iterator[tuple[tuple[str, ...], Gauges]]:
        """Label values and state of each engine."""
        for index, gauges in enumerate(self.engines):
            values = (str(index), self.exposition.model_name)
            yield values[-len(self._label_names) :], gauges

    def _gauge(self, name: str, text: str, values: Sequence[float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=self._label_names)
        for (labels, _), value in zip(self._series(), values, strict=True):
            family.add_metric(labels, value)
        return family

    def _counter(self, name: str, text: str, values: Sequence[float]) -> Metric:
        family = CounterMetricFamily(name, text, labels=self._label_names)
        for (labels, _), value in zip(self._series(), values, strict=True):
            family.add_metric(labels, value, created=self._created)
        return family

    def _constant(self, name: str, text: str, value: float) -> Metric:
        return self._gauge(name, text, [value] * len(self.engines))

    def _running(self, text: str) -> Metric:
        return self._gauge("vllm:num_requests_running", text, [e.running for e in self.engines])

    def _waiting(self) -> Metric:
        text = "Number of requests waiting to be processed."
        return self._gauge("vllm:num_requests_waiting", text, [e.waiting for e in self.engines])

    def _usage(self, name: str, text: str) -> Metric:
        return self._gauge(name, text, [e.kv_usage for e in self.engines])

    def _prefix_cache(self, prefix: str, queries: str, hits: str) -> Iterator[Metric]:
        """Present and 0: prefix caching is off."""
        nothing = [0.0] * len(self.engines)
        yield self._counter(f"{prefix}_queries", queries, nothing)
        yield self._counter(f"{prefix}_hits", hits, nothing)

    def _counters(self) -> Iterator[Metric]:
        yield self._counter(
            "vllm:num_preemptions",
            "Cumulative number of preemption from the engine.",
            [e.preemptions_total for e in self.engines],
        )
        yield self._counter(
            "vllm:prompt_tokens",
            "Number of prefill tokens processed.",
            [e.prompt_tokens_total for e in self.engines],
        )
        yield self._counter(
            "vllm:generation_tokens",
            "Number of generation tokens processed.",
            [e.generation_tokens_total for e in self.engines],
        )
        success = CounterMetricFamily(
            "vllm:request_success",
            "Count of successfully processed requests.",
            labels=(*self._label_names, "finished_reason"),
        )
        for labels, gauges in self._series():
            for reason in FINISH_REASONS:
                count = gauges.finished_total if reason == "stop" else 0
                success.add_metric((*labels, reason), count, created=self._created)
        yield success

    def _cache_config(self, text: str) -> Metric:
        """Every value is a string, and unset is the text None, as vLLM prints them."""
        exposition = self.exposition
        config = {
            "block_size": str(self.settings.block_tokens),
            "cache_dtype": exposition.cache_dtype,
            "enable_prefix_caching": "False",
            "gpu_memory_utilization": str(exposition.gpu_memory_utilization),
            "num_cpu_blocks": "0" if exposition.names is Names.V0 else "None",
            # The sum over the server's engines (v1/engine/core_client.py), on each of them.
            "num_gpu_blocks": str(self.settings.kv_blocks * len(self.engines)),
            "num_gpu_blocks_override": "None",
            "sliding_window": "None",
        }
        if exposition.names is Names.CURRENT:
            config["kv_cache_memory_bytes"] = "None"
            if exposition.kv_cache_size_tokens is not None:
                config["kv_cache_size_tokens"] = str(exposition.kv_cache_size_tokens)
        engines = [{"engine": str(index)} for index in range(len(self.engines))]
        if exposition.names is Names.V0:
            engines = [{}]
        family = GaugeMetricFamily(
            "vllm:cache_config_info", text, labels=tuple({**config, **engines[0]})
        )
        for engine in engines:
            family.add_metric(tuple({**config, **engine}.values()), 1)
        return family
