"""`--calibrate` and `--calibrate-line`: an engine's own start-up log, from a file or pasted."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kvscale.cli.errors import fail
from kvscale.cli.files import shown_path
from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.engines.boot_log import BootLog, parse_boot_log

STDIN = "-"
LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept; the rest of it is passed over."""
MOST_BYTES = 1 << 30
"""Of a log; the start stands at its beginning."""


def read_boot(log: Path | None, line: str | None) -> BootLog | Refusal | None:
    """What a start of the engine told of its memory; None where neither option is given.

    Args:
        log: file of the log; "-" reads the standard input.
        line: lines of it, pasted.
    """
    if log is not None and line is not None:
        fail("--calibrate and --calibrate-line exclude each other: leave one out")
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
