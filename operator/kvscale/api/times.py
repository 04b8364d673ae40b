"""RFC 3339 times, as the API writes them, to and from epoch seconds."""

import re
from datetime import UTC, datetime
from typing import Final

_RFC3339: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[Tt](?P<time>\d{2}:\d{2}:\d{2})"
    r"(?:\.(?P<fraction>\d{1,9}))?(?P<zone>[Zz]|[+-]\d{2}:\d{2})"
)


def parse_time(text: str) -> float:
    """Epoch seconds of an RFC 3339 time, fractions of a second included.

    Raises:
        ValueError: the text is no such time; the message gives an example.
    """
    problem = f'"{text}" is no RFC 3339 time: write one with its zone, as in 2026-11-29T18:00:00Z'
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(problem)
    try:
        text_with_zone = f"{match['date']}T{match['time']}{match['zone'].upper()}"
        whole = datetime.fromisoformat(text_with_zone).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day; a year outside 1 to 9999 in UTC
        raise ValueError(problem) from None
    return whole.timestamp() + float(f"0.{match['fraction'] or 0}")


def format_time(at: float) -> str:
    """Epoch seconds as metav1.Time is written: UTC, whole seconds (rounded down)."""
    return datetime.fromtimestamp(at // 1, UTC).replace(tzinfo=None).isoformat() + "Z"
