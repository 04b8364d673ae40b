"""What an engine said of its memory when it started: from its log, or from its own metric.

A log may hold several ranks (the smallest KV memory decides, as in the engine), several starts (the
last complete one counts), colours, prefixes and any other noise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kvscale.core.engines import boot_patterns as say
from kvscale.core.engines.boot_arguments import fraction_milli, settings
from kvscale.core.engines.config import EngineKind
from kvscale.core.refusal import Refusal
from kvscale.core.values import Band


@dataclass(frozen=True, slots=True)
class BootLog:
    """A start, as far as it was told. Bytes are per device; None: not told.

    Attributes:
        kind: which engine.
        version, model, architecture: as the engine names them; "" if it does not.
        arguments: settings that it printed, by their names in the engine's code.
        complete_arguments: whether what is not in `arguments` has its default.
        kv: memory for KV of the smallest rank, within the rounding of the log.
        kv_fixed: the user gave it; nothing was measured.
        weights: of the largest rank.
        total: what the utilisation is a share of: all of the device (vLLM), or what was free
            before the load (SGLang).
        utilization_milli: the share, in thousandths.
        graphs: estimate of CUDA graphs.
        kv_tokens: "GPU KV cache size", with the version's own meaning.
        concurrency_milli, length: sequences of that length, in thousandths.
        blocks: of KV.
    """

    kind: EngineKind = EngineKind.VLLM
    version: str = ""
    model: str = ""
    architecture: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    complete_arguments: bool = False
    kv: Band | None = None
    kv_fixed: bool = False
    weights: Band | None = None
    total: Band | None = None
    utilization_milli: int | None = None
    graphs: Band | None = None
    kv_tokens: int | None = None
    concurrency_milli: int | None = None
    length: int | None = None
    blocks: int | None = None

    @property
    def tells_memory(self) -> bool:
        """Whether it says how much memory KV has, in one way or another."""
        return self.kv is not None or self.blocks is not None

    def number(self, name: str) -> int | None:
        """A printed setting as a whole number; None if it is not there or is none."""
        text = self.arguments.get(name, "")
        return int(text) if text.isdigit() else None


def parse_boot_log(lines: Iterable[str], option: str = "--calibrate") -> BootLog | Refusal:
    """The last complete start in a log.

    Args:
        lines: of the log, a single pasted line, or the metric `vllm:cache_config_info` of a
            running engine.
        option: that named it, for the message.

    Returns:
        What was told, or a Refusal where no line tells of KV memory.
    """
    reader = _Reader()
    for line in lines:
        cut = line[: say.LONGEST_LINE]
        if say.CACHE_INFO in cut:
            return boot_of_labels(dict(say.LABEL.findall(cut)))
        if say.tells(cut):
            reader.read(say.ANSI.sub("", cut))
    found = reader.result
    if found.tells_memory:
        return found
    return Refusal(
        "NoBootLog",
        option,
        f"{option}: no line tells how much memory is left for KV; give the engine's own log from "
        'its start: "Available KV cache memory: ... GiB" (vLLM) or "KV Cache is allocated" '
        "(SGLang), or the line vllm:cache_config_info of its metrics",
    )


def boot_of_labels(labels: Mapping[str, str]) -> BootLog | Refusal:
    """The same from the labels of `vllm:cache_config_info` of a running engine.

    vllm v0.8.0 to v0.33.0 v1/metrics/loggers.py: every field of CacheConfig, as text. With data
    parallelism the engines' blocks are summed: divide before.
    """
    blocks = say.whole(labels.get("num_gpu_blocks", ""))
    if blocks is None:
        return Refusal(
            "NoBootLog",
            "vllm:cache_config_info",
            "vllm:cache_config_info shows no num_gpu_blocks; read it from a server that is ready",
        )
    share = labels.get("gpu_memory_utilization", "")
    return BootLog(
        arguments={name: labels[name] for name in ("block_size", "cache_dtype") if name in labels},
        kv_fixed=labels.get("kv_cache_memory_bytes", "None") != "None",
        utilization_milli=fraction_milli(share),
        kv_tokens=say.whole(labels.get("kv_cache_size_tokens", "")),
        blocks=blocks,
    )


class _Reader:
    """Gathers one start after the other."""

    def __init__(self) -> None:
        self._now = BootLog()
        self._last: BootLog | None = None

    @property
    def result(self) -> BootLog:
        """The last start that told of its memory."""
        return self._last if self._last and not self._now.tells_memory else self._now

    def read(self, line: str) -> None:
        """Take a line in."""
        self._identity(line)
        self._memory(line)
        self._tokens(line)
        self._sglang(line)

    def _set(self, **more: Any) -> None:
        told = {name: value for name, value in more.items() if value is not None}
        self._now = replace(self._now, **told)

    def _begin(self, kind: EngineKind) -> None:
        if self._now.tells_memory:
            self._last = self._now
            self._now = BootLog()
        self._set(kind=kind)

    def _identity(self, line: str) -> None:
        if found := say.COMMAND.search(line):
            self._begin(EngineKind.VLLM if found[1] else EngineKind.SGLANG)
            self._set(utilization_milli=fraction_milli(found[2]))
        if found := say.SERVER.search(line):
            self._begin(EngineKind.VLLM)
            self._set(version=found[1] or found[2])
        if found := say.VLLM_ARGUMENTS.search(line):
            self._arguments(found[1])
        if found := say.ENGINE.search(line):
            # Lines that were pasted out of their order are still of one start.
            if self._now.version and not say.OTHER_RANK.search(line):
                self._begin(EngineKind.VLLM)
            self._set(version=found[1])
        if found := say.MODEL.search(line):
            told, _ = settings(found[1])
            self._set(model=found[2], arguments={**told, **self._now.arguments})
        if (found := say.MODEL_LOADED.search(line)) and not self._now.model:
            self._set(model=found[1] or found[2])
        if (found := say.ARCHITECTURE.search(line)) and not self._now.architecture:
            self._set(architecture=found[1])
        if found := say.BATCH.search(line):
            stated = {"max_num_batched_tokens": found[1]}
            self._set(arguments={**stated, **self._now.arguments})

    def _arguments(self, text: str) -> None:
        if self._now.complete_arguments:
            self._begin(EngineKind.VLLM)
        told, closed = settings(text)
        self._set(
            arguments=told if closed else {**self._now.arguments, **told},
            complete_arguments=closed,
            model=told.get("model_tag") or told.get("model"),
            utilization_milli=fraction_milli(told.get("gpu_memory_utilization", "")),
        )

    def _memory(self, line: str) -> None:
        if found := say.WEIGHTS.search(line):
            self._set(weights=say.larger(self._now.weights, say.gib(*found.groups())))
        if found := say.KV.search(line):
            self._set(kv=say.smaller(self._now.kv, say.gib(*found.groups())))
        if found := say.KV_BYTES.search(line):
            self._set(kv=_sharper(self._now.kv, int(found[1])))
        if found := say.KV_FIXED.search(line):
            self._set(kv=say.gib(found[1]), kv_fixed=True)
        if found := say.FREE.search(line):
            self._set(total=say.gib(found[2]))
        if found := say.DESIRED.search(line):
            self._set(utilization_milli=say.milli(found[1]))
        if found := say.INSTANCE.search(line):
            self._set(total=say.gib(found[1]), utilization_milli=say.milli(found[2]))
        if found := say.UTILIZATION.search(line):
            self._set(utilization_milli=say.milli(found[1] or found[2] or found[3]))
        if found := say.GRAPHS.search(line):
            self._set(graphs=say.larger(self._now.graphs, say.gib(found[1])))

    def _tokens(self, line: str) -> None:
        if found := say.TOKENS.search(line):
            self._set(kv_tokens=say.least(self._now.kv_tokens, say.whole(found[1])))
        if found := say.CONCURRENCY.search(line):
            self._set(
                length=say.whole(found[1]), concurrency_milli=round(float(found[2]) * 1000)
            )  # fmt: skip
        if found := say.BLOCKS.search(line):
            self._set(blocks=say.least(self._now.blocks, say.whole(found[1])))

    def _sglang(self, line: str) -> None:
        if found := say.SGLANG_ARGUMENTS.search(line):
            self._begin(EngineKind.SGLANG)
            pairs, closed = settings(found[1])
            self._set(
                arguments=pairs,
                complete_arguments=closed,
                model=pairs.get("model_path"),
                utilization_milli=fraction_milli(pairs.get("mem_fraction_static", "")),
            )
        # A draft model is loaded second, when less is free.
        if (found := say.SGLANG_BEFORE.search(line)) and self._now.weights is None:
            self._set(total=say.smaller(self._now.total, say.gib(found[1])))
        if (found := say.SGLANG_TYPE.search(line)) and not self._now.architecture:
            self._set(architecture=found[1])
        if found := say.SGLANG_LOADED.search(line):
            self._set(weights=say.larger(self._now.weights, say.gib(found[1])))
        if found := say.SGLANG_KV.search(line):
            parts = [say.gib(text) for text in found.groups()[1:]]
            self._set(
                kind=EngineKind.SGLANG,
                kv=say.smaller(self._now.kv, say.total([part for part in parts if part])),
                kv_tokens=say.least(self._now.kv_tokens, say.whole(found[1])),
            )
        if found := say.SGLANG_TOKENS.search(line):
            self._set(kind=EngineKind.SGLANG, kv_tokens=say.whole(found[1]))


def _sharper(rounded: Band | None, exact: int) -> Band:
    """The exact bytes of a rank, unless another rank has less."""
    if rounded is not None and rounded.high < exact:
        return rounded
    return Band.point(exact)
