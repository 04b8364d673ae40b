"""What SGLang reports of itself (`--enable-metrics`): the series of one pod to a sample per engine.

Names and when they changed: sglang 0.4.6 to 0.5.23, srt/metrics/collector.py (observability/ from
0.5.20). Gauges of the scheduler are repeated by every rank of an engine (labels tp_rank, pp_rank,
moe_ep_rank), which agree up to the moment: the largest counts. `dp_rank` tells engines apart.
Counters of tokens come from the server as a whole.
"""

import math
import re
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

TOKEN_USAGE = "sglang:token_usage"  # noqa: S105 - a metric
"""Used share of the fullest pool, 0 to 1, rounded to two digits."""
USED_TOKENS = "sglang:num_used_tokens"
MAX_TOKENS = "sglang:max_total_num_tokens"
"""Tokens of the pool of full attention; a gauge in releases from 0.5.8."""
PAGE_SIZE = "sglang:page_size"
"""From 0.5.12."""
RUNNING = "sglang:num_running_reqs"
QUEUED = "sglang:num_queue_reqs"
RETRACTED = "sglang:num_retracted_requests_total"
"""Preemptions, from 0.5.8; before, only a gauge of the last interval."""
PROMPT_TOKENS = "sglang:prompt_tokens_total"
GENERATION_TOKENS = "sglang:generation_tokens_total"
CACHED_TOKENS = "sglang:cached_tokens_total"
"""Prompt tokens found in the radix cache; by `cache_source` in newer versions."""

SERIES_NAMES = (
    TOKEN_USAGE,
    USED_TOKENS,
    MAX_TOKENS,
    PAGE_SIZE,
    RUNNING,
    QUEUED,
    RETRACTED,
    PROMPT_TOKENS,
    GENERATION_TOKENS,
    CACHED_TOKENS,
)
ENGINE_LABELS = frozenset({
    "model_name", "engine_type", "tp_rank", "pp_rank", "dp_rank", "moe_ep_rank", "cache_source",
    "priority",
})  # fmt: skip
"""Labels that SGLang itself writes on the series above."""

_COUNTERS = frozenset({RETRACTED, PROMPT_TOKENS, GENERATION_TOKENS, CACHED_TOKENS})
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "engine_type", "priority")
_INDEX = re.compile(r"[0-9]{1,4}")
_ROUNDING = 0.005


def read_sglang_pod(series: Iterable[Series], served_model_name: str = "") -> PodMetrics | Unknown:
    """The samples of a pod's engines, by data-parallel rank.

    Returns:
        At least one sample, or Unknown as `core.engines.metrics.read_pod` says.
    """
    names = frozenset(SERIES_NAMES)
    try:
        pod = _Pod(of_model([one for one in series if one.name in names], served_model_name))
        return tuple(pod.sample(engine) for engine in pod.engines)
    except UnreadableError as error:
        return error.unknown


class _Pod:
    """The series of one pod, by engine."""

    def __init__(self, series: list[Series]) -> None:
        self._gauges: dict[tuple[str, str], float] = {}
        self._counters: dict[tuple[str, str], float] = {}
        self._seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        engines: set[str] = set()
        for one in series:
            self._once(one)
            if one.name in _COUNTERS:
                key = (one.name, one.labels.get("dp_rank", ""))
                if self._largest_rank(one):
                    self._counters[key] = self._counters.get(key, 0.0) + one.value
                continue
            engine = one.labels.get("dp_rank", "") or "0"
            if not _INDEX.fullmatch(engine):
                raise UnreadableError("InvalidSeries", f"the dp_rank of {one.name} is not a number")
            engines.add(engine)
            found = self._gauges.get((one.name, engine))
            # What is no number must not hide behind another rank.
            if found is None or (not math.isnan(found) and not one.value <= found):
                self._gauges[one.name, engine] = one.value
        if not engines:
            raise UnreadableError("IncompleteSeries", f"no {TOKEN_USAGE}")
        self.engines = sorted(engines, key=int)

    def _once(self, one: Series) -> None:
        key = (one.name, tuple(sorted(one.labels.items())))
        if key in self._seen:
            raise UnreadableError(
                "DuplicateSeries",
                f"{one.name} is there twice with equal labels; metrics.path must show one server,"
                " not a collector of several",
            )
        self._seen.add(key)

    @staticmethod
    def _largest_rank(one: Series) -> bool:
        """Whether a counter is that of the first rank: the others count the same again."""
        return all(one.labels.get(rank, "0") == "0" for rank in _RANKS[:3])

    def sample(self, engine: str) -> EngineSample:
        """What that engine reported."""
        page = self._whole(PAGE_SIZE, engine) or None
        tokens = self._whole(MAX_TOKENS, engine) or None
        cached = self._counter(CACHED_TOKENS, engine)
        prompts = self._counter(PROMPT_TOKENS, engine)
        return EngineSample(
            engine=engine,
            kv_usage=self._usage(engine, tokens),
            running=self._count(RUNNING, engine),
            waiting=self._count(QUEUED, engine),
            preemptions_total=self._counter(RETRACTED, engine),
            prompt_tokens_total=prompts,
            generation_tokens_total=self._counter(GENERATION_TOKENS, engine),
            prefix_hits_total=cached,
            prefix_queries_total=None if cached is None else prompts,
            kv_blocks=None if tokens is None or page is None else tokens // page,
            block_tokens=page,
            reserved_blocks=0,
            kv_cache_size_tokens=tokens,
        )

    def _usage(self, engine: str, tokens: int | None) -> float:
        """The share in use: of the tokens where they tell the same as the rounded share."""
        value = self._gauges.get((TOKEN_USAGE, engine))
        if value is None:
            raise UnreadableError("IncompleteSeries", f"engine {engine} shows no {TOKEN_USAGE}")
        share = checked(value, TOKEN_USAGE, engine, 1.0)
        used = self._whole(USED_TOKENS, engine)
        if used is None or tokens is None or used > tokens:
            return share
        exact = used / tokens
        # Of a hybrid model the share is that of the fullest pool, which tokens do not tell.
        return exact if abs(exact - share) <= _ROUNDING + 1e-9 else share

    def _count(self, name: str, engine: str) -> int:
        value = self._whole(name, engine)
        if value is None:
            raise UnreadableError("IncompleteSeries", f"engine {engine} shows no {name}")
        return value

    def _whole(self, name: str, engine: str) -> int | None:
        value = self._gauges.get((name, engine))
        if value is None:
            return None
        if not checked(value, name, engine, EXACT).is_integer():
            raise UnreadableError(
                "InvalidSeries", f"{name} of engine {engine} is not a whole number"
            )
        return int(value)

    def _counter(self, name: str, engine: str) -> float | None:
        """An engine's own counter, or its share of the server's."""
        own = counter(self._counters.get((name, engine)))
        if own is not None:
            return own
        whole = counter(self._counters.get((name, "")))
        return None if whole is None else whole / len(self.engines)
