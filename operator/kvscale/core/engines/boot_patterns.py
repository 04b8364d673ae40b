"""The lines of a start-up log that tell of memory, in every spelling of vLLM and SGLang.

vLLM 0.6 to 0.33: v1/worker/gpu_worker.py, v1/worker/gpu_model_runner.py, v1/core/kv_cache_utils.py,
worker/worker.py (V0), entrypoints/utils.py, config/model.py. SGLang 0.4 to 0.5.23:
model_executor/model_runner.py, mem_cache/memory_pool.py, managers/scheduler.py. Both
print GiB, also where they write GB.
"""

import re

from kvscale.core.values import GIB, Band

MOST_GIB = 1 << 20
"""More in a log than any device has: no reading of it."""

LEAST_DIGITS = 2
WHOLE_MILLI = 1000

CACHE_INFO = "vllm:cache_config_info{"
LABEL = re.compile(r'(\w+)="([^"\\]*)"')
"""The metric in which a running vLLM states its cache, and one of its labels."""

LONGEST_LINE = 16_384
"""Characters of a line that are looked at; the line of an engine's configuration has 8,000."""

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

_TELLING = (
    "took ", "weights take", "for weight", "KV cache memory", "KV Cache", "kv cache memory",
    "kv_cache_memory", "KV cache size", "blocks", "on device", "gpu_memory_utilization",
    "gpu-memory-utilization", "LLM engine", "version ", "non-default args", "Estimated CUDA",
    "ServerArgs(", "max_total_num_tokens", "Load weight", "batched_tokens=", "Maximum concurrency",
    "args: Namespace(", "Resolved architecture", "Starting to load model", "Requested memory",
    "mem-fraction-static", "  model  ", "GPU memory utilization",
)  # fmt: skip


def tells(line: str) -> bool:
    """Whether a line can matter at all: a log of 100 MB is mostly requests."""
    return any(word in line for word in _TELLING)


_GIB = r"(-?\d{1,7}(?:\.\d{1,6})?) ?Gi?B"

WEIGHTS = re.compile(
    rf"(?:Loading model weights took|Model loading took|model weights take) ?{_GIB}"
    rf"|Actual usage is {_GIB} for weight"
)
KV = re.compile(
    rf"Available KV cache memory: {_GIB}|reserved for KV Cache is {_GIB}"
    rf"|available_kv_cache_memory +{_GIB}"
)
KV_BYTES = re.compile(r"[Cc]urrent kv cache memory in use is (\d{1,15}) bytes")
KV_FIXED = re.compile(rf"reserved {_GIB} memory for KV Cache as specified")
TOKENS = re.compile(r"GPU KV cache size: ([\d,]{1,20}) tokens")
CONCURRENCY = re.compile(
    r"Maximum concurrency for ([\d,]{1,20}) tokens per request: (\d{1,9}(?:\.\d{1,4})?)x"
)
BLOCKS = re.compile(r"(?:# ?(?:GPU|cuda|CUDA) blocks: |num_gpu_blocks is: )([\d,]{1,20})")
FREE = re.compile(rf"Free memory on device[^(]{{0,40}}\((-?\d{{1,7}}(?:\.\d{{1,6}})?)/{_GIB}\)")
DESIRED = re.compile(rf"Desired GPU memory utilization is \((\d(?:\.\d{{1,9}})?), {_GIB}\)")
INSTANCE = re.compile(
    rf"total_gpu_memory \({_GIB}\) x gpu_memory_utilization \((\d(?:\.\d{{1,9}})?)\) = {_GIB}"
)
UTILIZATION = re.compile(
    r"current --gpu-memory-utilization=(\d(?:\.\d{1,9})?) "
    r"|Requested memory: (\d(?:\.\d{1,9})?) \(util\)"
    r"|increasing --gpu-memory-utilization from (\d(?:\.\d{1,9})?) to"
)
COMMAND = re.compile(
    r"(?:(vllm serve|vllm\.entrypoints)|sglang\.launch_server|sglang serve)\b.{0,4000}?"
    r"--(?:gpu[-_]memory[-_]utilization|mem[-_]fraction[-_]static)[ =]['\"]?"
    r"(\d?(?:\.\d{1,9})?)(?![\d.])"
)
"""The command itself, which a shell or a container prints before the engine speaks."""
GRAPHS = re.compile(rf"Estimated CUDA graph memory: {_GIB}")
BATCH = re.compile(r"max_num_batched_tokens=(\d{1,9})")

ENGINE = re.compile(r"Initializing an? (?:V\d )?LLM engine \(v?([^\s)]{1,60})\)")
SERVER = re.compile(r"vLLM API server version v?(\S{1,60})|[▀▄█].{0,60}version v?(\S{1,60})")
OTHER_RANK = re.compile(r"EngineCore_DP[1-9]")
"""Prefix of an engine that starts beside the first one, not after it."""
MODEL = re.compile(r"LLM engine.{0,90}?config: (model='([^']{1,500})'.*)")
MODEL_LOADED = re.compile(
    r"Starting to load model (\S{1,500}?)\.\.\.|[▀▄█] {1,9}model {1,9}(\S{1,500})"
)
ARCHITECTURE = re.compile(r"Resolved architecture: (\w{1,100})")
VLLM_ARGUMENTS = re.compile(r"(?:non-default args: \{|args: Namespace\()(.*)")
SGLANG_ARGUMENTS = re.compile(r"ServerArgs\((.*)")

SGLANG_KV = re.compile(
    rf"KV Cache is allocated\..{{0,80}}?#tokens: (\d{{1,15}}), "
    rf"(?:K size: {_GIB}, V size: {_GIB}|KV size: {_GIB})"
)
SGLANG_TOKENS = re.compile(r"max_total_num_tokens=(\d{1,15})")
SGLANG_BEFORE = re.compile(rf"Load weight begin\. avail mem={_GIB}")
SGLANG_TYPE = re.compile(r"Load weight end\..{0,100}?type=(\w{1,100})")
SGLANG_LOADED = re.compile(rf"Load weight end\..{{0,200}}?mem usage={_GIB}")


def gib(*texts: str | None) -> Band | None:
    """Bytes of the first number that is there, within what its rounding leaves open.

    Both engines round to two digits or more; vLLM leaves zeros at the end out ("13.0").

    Args:
        texts: groups of a match, of which one holds a number of GiB.
    """
    text = next((text for text in texts if text), None)
    if text is None or abs(float(text)) > MOST_GIB:
        return None
    digits = max(LEAST_DIGITS, len(text.partition(".")[2]))
    half = round(GIB * 10**-digits / 2)
    value = round(float(text) * GIB)
    return Band(value - half, value, value + half)


def whole(text: str) -> int | None:
    """A positive number with thousands separators; None if it is none."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() and int(digits) else None


def milli(text: str) -> int | None:
    """A share in thousandths; None if it is no share."""
    value = round(float(text) * 1000)
    return value if 0 < value <= WHOLE_MILLI else None


def smaller(one: Band | None, other: Band | None) -> Band | None:
    """The band with the smaller value; the other one where one is missing."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda band: band.expected)


def larger(one: Band | None, other: Band | None) -> Band | None:
    """The band with the larger value; the other one where one is missing."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda band: band.expected)


def least(one: int | None, other: int | None) -> int | None:
    """The smaller number; the other one where one is missing."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def total(parts: list[Band]) -> Band | None:
    """The sum of bands; None of none."""
    if not parts:
        return None
    return Band(
        sum(part.low for part in parts),
        sum(part.expected for part in parts),
        sum(part.high for part in parts),
    )
