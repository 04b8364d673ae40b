"""`--calibrate`, `--calibrate-line`: an engine's own start-up log, from a file or pasted."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kvscale.cli.errors import fail
from kvscale.cli.files import shown_path
from kvscale.core.capacity.boot_settings import with_fraction
from kvscale.core.engines.boot_log import BootLog, parse_boot_log
from kvscale.core.refusal import Refusal

STDIN = "-"
LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept; the rest of it is passed over."""
MOST_BYTES = 1 << 30
"""Of a log; the start stands at its beginning."""


def read_boot(
    log: Path | None, line: str | None, fraction: float | None = None
) -> BootLog | Refusal | None:
    """What a start of the engine told of its memory; None where neither option is given.

    Args:
        log: file of the log; "-" reads the standard input.
        line: lines of it, pasted.
        fraction: memory fraction of that start, where the log does not state it.
    """
    if log is not None and line is not None:
        fail("--calibrate and --calibrate-line exclude each other: leave one out")
    if fraction is None:
        return _read(log, line)
    if log is None and line is None:
        fail("--calibrate-utilization needs the log of that start: add --calibrate LOG")
    if not 0 < fraction <= 1:
        fail(
            f"--calibrate-utilization is {fraction}: give a share above 0 and at most 1, such as "
            "0.9"
        )
    return with_fraction(_read(log, line), max(1, round(fraction * 1000)))


def _read(log: Path | None, line: str | None) -> BootLog | Refusal | None:
    if line is not None:
        return parse_boot_log(line.splitlines(), "--calibrate-line")
    if log is None:
        return None
    if str(log) == STDIN:
        return parse_boot_log(_lines(sys.stdin.buffer))
    try:
        with log.open("rb") as file:
            return parse_boot_log(_lines(file))
    except OSError as error:
        why = error.strerror or type(error).__name__
        fail(f"--calibrate: {shown_path(log)} cannot be read: {why}")


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines as text, whatever the bytes are; the memory that they take is bounded."""
    left, inside = MOST_BYTES, False
    while left > 0 and (part := file.readline(LONGEST_LINE)):
        left -= len(part)
        if not inside:
            yield part.decode("utf-8", "replace")
        inside = not part.endswith(b"\n")
