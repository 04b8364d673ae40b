"""`PYTHONPATH=operator:tests python -m support.boot_page`: the figures of docs/boot-logs.md."""

import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.values import Band
from support.boot_rows import GIB, Boot, boots, share, why_no_memory, why_no_tokens

PAGE = Path(__file__).parents[2] / "docs" / "boot-logs.md"
HEAD = (
    "| row | version | model | device | tp | KV memory | tokens |\n|---|---|---|---|---|---|---|\n"
)

LENGTH = 1024
"""The KV memory does not depend on the length; a log may be of a start that failed by it."""

BENCHMARK = "be"
"""Rows of one public benchmark begin so; they are told apart from single logs."""


def memory(boot: Boot) -> tuple[Band, float, Device]:
    """Estimated bytes, logged GiB, device."""
    device, shape, logged = boot.device, boot.shape, boot.number("reported_kv_gib")
    assert device is not None
    assert shape is not None
    assert logged is not None
    found = engine_capacity(shape, replace(boot.engine, max_model_len=LENGTH), device)
    assert isinstance(found, EngineCapacity), (boot.name, found)
    return found.kv_memory_bytes, logged, device


def error(boot: Boot) -> float:
    """The estimate's error as a share of the device's memory."""
    band, logged, device = memory(boot)
    return share(band.expected / GIB - logged, device)


def tokens_error(boot: Boot) -> float:
    """Tokens computed from the logged memory, against those printed; a relative error."""
    shape, logged, printed = (
        boot.shape, boot.number("reported_kv_gib"), boot.number("reported_kv_tokens")
    )  # fmt: skip
    assert shape is not None
    assert logged is not None
    assert printed is not None
    device = boot.device or Device("not stated", 512 * GIB, compute_capability="9.0")
    found = engine_capacity(shape, boot.engine, device, round(logged * GIB))
    assert isinstance(found, EngineCapacity), found
    return found.kv_cache_size_tokens.expected / printed - 1


def figures(rows: Iterable[Boot]) -> str:
    """Number of rows, errors, coverage and width of the bands."""
    found = [memory(boot) for boot in rows]
    errors = sorted(abs(share(band.expected / GIB - logged, on)) for band, logged, on in found)
    inside = sum(band.low <= logged * GIB <= band.high for band, logged, _ in found)
    widths = [share((band.high - band.low) / GIB, on) for band, _, on in found]
    late = errors[math.ceil(0.95 * len(errors)) - 1]
    return (
        f"{len(found)} | {statistics.median(errors):.2%} | {late:.2%} | {errors[-1]:.2%} | "
        f"{inside} | {statistics.median(widths):.1%}"
    )


def line(boot: Boot) -> str:
    """The row of the page."""
    row = boot.row
    why = why_no_memory(boot)
    if not why:
        band, logged, _ = memory(boot)
        low, middle, high = (max(0, n) / GIB for n in (band.low, band.expected, band.high))
        held = "; held out" if "held_out" in boot.notes else ""
        why = (
            f"{low:.2f} / **{middle:.2f}** / {high:.2f}; logged {logged:g}; "
            f"{100 * error(boot):+.2f} %{held}"
        )
    tokens = why_no_tokens(boot) or f"{100 * tokens_error(boot):+.2f} %"
    return (
        f"| {boot.name} | {row['engine_version'] or 'not stated'} | {row['model']} | "
        f"{row['gpu'].split(' (')[0]} | {row['tp'] or 1} | {why} | {tokens} |"
    )


def text() -> str:
    """The page with its figures as they are now."""
    rows = boots()
    page = PAGE.read_text()
    table = HEAD + "\n".join(map(line, rows)) + "\n"
    start = page.index(HEAD)
    end = re.compile(r"\n(?!\|)|\Z").search(page, start + len(HEAD))
    assert end is not None
    page = page[:start] + table.rstrip("\n") + page[end.start() :]
    known = [boot for boot in rows if not why_no_memory(boot)]
    logs = [boot for boot in known if not boot.name.startswith(BENCHMARK)]
    other = [boot for boot in known if boot.name.startswith(BENCHMARK)]
    for name, chosen in (("single logs", logs), ("a benchmark and later logs", other)):
        page = re.sub(
            rf"^\| {name} \|.*$", f"| {name} | {figures(chosen)} |", page, flags=re.MULTILINE
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(text())
