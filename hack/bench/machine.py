"""Where a run took place, and what this process uses of it."""

import functools
import gc
import os
import platform
import resource
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("kopf", "kubernetes", "pydantic", "orjson", "aiohttp")


def describe() -> str:
    """The machine, the versions and the load, in one paragraph."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{datetime.now(UTC):%d %B %Y}; {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}; Python {platform.python_version()}, "
        f"{versions}; load average at the start {load}."
    )


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def resident_bytes() -> int:
    """Resident memory of this process now; its highest so far where /proc does not say."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most resident memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def forget_caches() -> None:
    """Empty every functools cache, so that what follows costs what it costs the first time."""
    for candidate in gc.get_objects():
        if isinstance(candidate, functools._lru_cache_wrapper):  # noqa: SLF001 - its type has no public name
            candidate.cache_clear()
