"""Arrivals that fall together across pools (rule 13): a gateway died, not the demand.

Each pool alone would take the silence for low load and shrink, all at once, and the traffic that
comes back would find nobody. So when most pools with traffic lose it together, removals freeze.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.decide.state import LoadPoint, PoolState

RECENT_SECONDS = 60.0
BEFORE_SECONDS = 300.0
FREEZE_SECONDS = 600.0
MIN_POOLS = 2
FALLEN_SHARE = 0.1
POOLS_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Prompt tokens per second of one pool: over the last minute, and the minutes before it."""

    recent: float
    before: float

    @property
    def fell(self) -> bool:
        """Whether at most a tenth of the traffic is left."""
        return self.recent <= FALLEN_SHARE * self.before


def arrivals(points: tuple[LoadPoint, ...], now: float) -> Arrivals | None:
    """The arrival rates of a pool; None when the history is too short or there was no traffic."""
    before = [p for p in points if now - BEFORE_SECONDS <= p.at <= now - RECENT_SECONDS]
    # The last point before the minute begins it: points may lie as far apart as the minute is long.
    recent = [*before[-1:], *(p for p in points if p.at > now - RECENT_SECONDS)]
    if len(before) < 2 or len(recent) < 2:  # noqa: PLR2004 - a rate needs two points
        return None
    found = Arrivals(recent=_rate(recent), before=_rate(before))
    return found if found.before > 0 else None


def tokens_per_minute(points: tuple[LoadPoint, ...]) -> float | None:
    """Prompt tokens a minute over the whole history; None below two minutes of it."""
    if len(points) < 2 or points[-1].at - points[0].at < 2 * RECENT_SECONDS:  # noqa: PLR2004 - ditto
        return None
    return 60 * _rate(list(points))


def fell_together(pools: Iterable[PoolState], now: float) -> bool:
    """Whether most pools with traffic lost it in the same minute."""
    seen = [found for pool in pools if (found := arrivals(pool.load, now)) is not None]
    return len(seen) >= MIN_POOLS and sum(a.fell for a in seen) >= POOLS_SHARE * len(seen)


def _rate(points: list[LoadPoint]) -> float:
    seconds = points[-1].at - points[0].at
    if seconds <= 0:
        return 0.0
    return (points[-1].arrived_tokens - points[0].arrived_tokens) / seconds
