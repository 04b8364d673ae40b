"""The Prometheus text format, read with limits: a body from a pod is hostile until it is parsed.

Only the lines that somebody asked for reach the parser of prometheus_client, one at a time: an
engine's page is mostly histogram buckets, that parser is slow on it and takes time that grows with
the square of a line's length, and it does not say in which line it failed.
"""

import re
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from kvscale.core.engines.metrics import SERIES_NAMES, Series
from kvscale.core.values import Unknown

MAX_LINE_BYTES = 8_192
"""vLLM 0.32's longest line, `cache_config_info`, has about 1,700."""
MAX_SERIES = 512
"""Of the asked-for names in one body: 42 engines of one server."""
MAX_PARSED_BYTES = 131_072
"""Of all asked-for lines together (42 engines again): bounds the time that a body can take."""

_NO_SAMPLE = re.compile(rb"^[ \t]*(?![ \t]|[A-Za-z_:{#]|\r?$|\r?\n).", re.MULTILINE)
"""A line that is neither blank nor a comment nor begins like a sample: HTML, JSON lists, binary."""


def parse(body: bytes, names: Iterable[str] = SERIES_NAMES) -> tuple[Series, ...] | Unknown:
    """The series of those names in an exposition.

    Returns:
        The series with their names as on the wire, or Unknown(MalformedMetrics) with the number
        of the line, Unknown(TooManySeries) beyond the limits. Never the body's own text.
    """
    stray = _NO_SAMPLE.search(body)
    if stray is not None:
        return _malformed(body, stray.start(), "is not a sample, a comment or blank")
    wanted = frozenset(names)
    choice = "|".join(re.escape(name) for name in sorted(wanted))
    lines = re.compile(rf"^[ \t]*(?:(?:{choice})[ \t{{]|{{).*".encode(), re.MULTILINE)
    series: list[Series] = []
    budget = MAX_PARSED_BYTES
    for match in lines.finditer(body):
        line = match.group()
        budget -= len(line)
        if len(line) > MAX_LINE_BYTES:
            return _malformed(body, match.start(), f"is longer than {MAX_LINE_BYTES} bytes")
        if len(series) == MAX_SERIES or budget < 0:
            return Unknown(
                "TooManySeries",
                f"more than {MAX_SERIES} series or {MAX_PARSED_BYTES} bytes of one pod's engines",
            )
        try:
            series.extend(_parse_line(line.decode()))
        except (ValueError, IndexError, OverflowError):
            return _malformed(body, match.start(), "is not in the Prometheus text format")
    return tuple(one for one in series if one.name in wanted)


def _parse_line(line: str) -> list[Series]:
    """One line as series.

    Raises:
        ValueError, IndexError: of the parser (prometheus_client 0.26 parser.py lets both out).
        OverflowError: an integer too large for a float.
    """
    return [
        Series(sample.name, sample.labels, float(sample.value))
        for family in text_string_to_metric_families(line)
        for sample in family.samples
    ]


def _malformed(body: bytes, position: int, flaw: str) -> Unknown:
    line = body.count(b"\n", 0, position) + 1
    return Unknown("MalformedMetrics", f"line {line} of the answer {flaw}; check metrics.path")
