"""The table on the screen: plain lines into a pipe, a live table on a terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.rounds import Round
from demo.story import clock

COLUMNS: tuple[tuple[str, int], ...] = (
    ("time", 5),
    ("req/s", 5),
    ("wanted", 6),
    ("placeable", 9),
    ("ready", 5),
    ("KV used", 7),
    ("waiting", 7),
    ("preempted", 9),
    ("bound", 5),
    ("scaled", 8),
    ("reason", 21),
)
"""Heading and width of each column; the last two are written to the left."""

LEFT = 2
GAP = "  "
WIDTH = sum(width for _, width in COLUMNS) + len(GAP) * (len(COLUMNS) - 1)
LINES_AROUND = 3
"""Of the terminal's height: the headings, and room for the prompt."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        round: the operator's.
        requests_per_second: arrivals of late.
        preempted: requests, since the start.
    """

    round: Round
    requests_per_second: float
    preempted: int

    @property
    def cells(self) -> tuple[str, ...]:
        """As text; "-" where the operator does not know."""
        one = self.round
        return (
            clock(one.at),
            f"{self.requests_per_second:.1f}",
            str(one.wanted),
            "-" if one.placeable is None else str(one.placeable),
            str(one.ready),
            "-" if one.occupancy is None else f"{one.occupancy:.0%}",
            "-" if one.waiting is None else str(one.waiting),
            str(self.preempted),
            one.bound or "-",
            "" if one.write is None else f"{one.current} -> {one.write}",
            one.reason,
        )


class Screen(Protocol):
    """Where rows are shown; a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def show(self, row: Row) -> None:
        """Show one more row."""
        ...


class PlainScreen:
    """A line for each row."""

    def __enter__(self) -> Self:
        say(_line([name for name, _ in COLUMNS]))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, row: Row) -> None:
        """Print it."""
        say(_line(row.cells))


class LiveScreen:
    """A table that is drawn anew, with the newest rows."""

    def __init__(self, console: Console) -> None:
        self._rows: list[Row] = []
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, row: Row) -> None:
        """Draw the table with it."""
        self._rows = [*self._rows, row][-max(1, self._console.height - LINES_AROUND) :]
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, len(GAP), 0, 0))
        for position, (name, width) in enumerate(COLUMNS):
            left = position >= len(COLUMNS) - LEFT
            table.add_column(
                name, justify="left" if left else "right", min_width=width, no_wrap=True
            )
        for one in self._rows:
            table.add_row(*one.cells, style=_style(one.round))
        self._live.update(table, refresh=True)


def open_screen() -> Screen:
    """The screen that fits standard output: a narrow terminal gets plain lines, which wrap."""
    console = Console(highlight=False)
    if sys.stdout.isatty() and console.width >= WIDTH:
        return LiveScreen(console)
    return PlainScreen()


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)


def _line(cells: Sequence[str]) -> str:
    parts = []
    for position, ((_, width), cell) in enumerate(zip(COLUMNS, cells, strict=True)):
        left = position >= len(COLUMNS) - LEFT
        parts.append(cell.ljust(width) if left else cell.rjust(width))
    return GAP.join(parts).rstrip()


def _style(one: Round) -> str:
    if one.write is None:
        return ""
    return "bold yellow" if one.write > one.current else "bold green"
