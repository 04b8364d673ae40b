"""Numbers as text for a terminal: tables, bytes, and the steps behind a number.

Plain characters only and no colour, so that a pipe and a terminal show the same.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence

from kvscale.core.trace import Scalar, Step, Trace
from kvscale.core.values import Band

WIDTH = 100
_GAP = "  "
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_NOISE = re.compile(r"\b(NVIDIA|AMD|Tesla)-|GeForce-|-Blackwell|-Server-Edition")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Aligned columns: the first `left` to the left, numbers to the right."""
    lines = [tuple(headers), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return [
        _GAP.join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def facts(pairs: Iterable[tuple[str, str]], width: int = WIDTH) -> list[str]:
    """Names and what they are, one below the other; long texts wrap under their start."""
    named = [(name, text) for name, text in pairs if text]
    indent = max((len(name) for name, _ in named), default=0) + len(_GAP)
    lines = []
    for name, text in named:
        wrapped = _wrap(text, max(20, width - indent)) or [""]
        lines.append(name.ljust(indent) + wrapped[0])
        lines += [" " * indent + line for line in wrapped[1:]]
    return lines


def notes(title: str, sentences: Iterable[str], width: int = WIDTH) -> list[str]:
    """A titled list; nothing when it is empty."""
    lines: list[str] = []
    for sentence in sentences:
        lines += _wrap(sentence, width, ("- ", "  "))
    return ["", title, *lines] if lines else []


def trace_lines(trace: Trace, width: int = WIDTH) -> list[str]:
    """Every step: its name and value, and below them the formula with its inputs."""
    rows = [(step.name, f"{number(step.value)} {step.unit}".rstrip()) for step in trace]
    names = max((len(name) for name, _ in rows), default=0)
    lines = []
    for step, (name, value) in zip(trace, rows, strict=True):
        lines.append(f"{name.ljust(names)}{_GAP}{value}")
        lines += _wrap(_how(step), width, ("    = ", "      "))
    return lines


def _wrap(text: str, width: int, indents: tuple[str, str] = ("", "")) -> list[str]:
    """Lines of a text; an option with dashes stays in one piece, so that it can be copied."""
    first, other = indents
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=other, break_on_hyphens=False
    )


def _how(step: Step) -> str:
    inputs = ", ".join(f"{name} {number(value)}" for name, value in step.inputs)
    source = f" [{step.source}]" if step.source else ""
    return f"{step.formula}{f' ({inputs})' if inputs else ''}{source}"


def short_name(product: str) -> str:
    """The product without its vendor and what no other product differs by."""
    return _NOISE.sub("", product)


def number(value: Scalar) -> str:
    """A number with thousands separated, without the noise of floating point."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_integer():
        return f"{int(value):,}"
    text = f"{value:,.3f}" if abs(value) >= 1 else f"{value:.4g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def band(value: Band) -> str:
    """The expected number with its low and high, or the one number that is known exactly."""
    if value.is_point:
        return number(value.expected)
    return f"{number(value.expected)} ({number(value.low)} to {number(value.high)})"


def size(count: int) -> str:
    """Bytes in the largest binary unit that leaves at least 1."""
    scaled, unit = float(count), 0
    while abs(scaled) >= _STEP and unit < len(_UNITS) - 1:
        scaled, unit = scaled / _STEP, unit + 1
    return f"{count} B" if unit == 0 else f"{scaled:,.2f} {_UNITS[unit]}"


def size_band(value: Band) -> str:
    """A band of bytes."""
    if value.is_point:
        return size(value.expected)
    return f"{size(value.expected)} ({size(value.low)} to {size(value.high)})"
