"""The clock: the only module that asks the machine for the time."""

import asyncio
import time


class SystemClock:
    """Real time, as epoch seconds that never step back.

    The wall clock is read once; from then on the monotonic clock counts. A correction of the wall
    clock (NTP, a person, a resumed machine) therefore neither shortens nor lengthens a window.
    """

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Epoch seconds; never steps back within a process."""
        return self._epoch + time.monotonic()

    def at(self, stamp: float) -> float:
        """The same: other clocks tell real time too."""
        return stamp

    async def sleep(self, seconds: float) -> None:
        """Wait; not at all when `seconds` is 0 or less."""
        await asyncio.sleep(max(0.0, seconds))


class CompressedClock:
    """Time that runs `factor` times as fast, for demonstrations: an hour in a minute at 60.

    Everything that shares it keeps its proportions. Limits on real input and output (a socket's
    timeout) do not run on it.

    Args:
        factor: seconds of the compressed time in one real second.
        zero: epoch second at which both times agree; before it, time is real. Processes that are
            given the same factor and zero share one clock.
    """

    def __init__(self, factor: float, zero: float) -> None:
        if not factor >= 1.0 or factor == float("inf"):
            raise ValueError(f"factor {factor!r}: give a finite number of at least 1")
        self._factor = factor
        self._zero = zero
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Epoch seconds of the compressed time."""
        return self.at(self._epoch + time.monotonic())

    def at(self, stamp: float) -> float:
        """The compressed time at a real epoch second."""
        passed = stamp - self._zero
        return self._zero + (self._factor * passed if passed > 0 else passed)

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds of the compressed time."""
        await asyncio.sleep(max(0.0, seconds) / self._factor)
