"""Consecutive engine steps whose times form an arithmetic series."""

from dataclasses import dataclass
from math import sqrt


@dataclass(slots=True)
class Run:
    """Steps without an event between them: step j (from 0) takes `first + growth * j` seconds.

    Attributes:
        start: seconds at which the first step begins.
        steps: how many steps; may be cut short when a request arrives.
    """

    start: float
    first: float
    growth: float
    steps: int

    def end_of(self, steps: int) -> float:
        """When the first `steps` steps are done."""
        return self.start + steps * self.first + self.growth * (steps * (steps - 1) / 2)

    @property
    def end(self) -> float:
        """When all steps are done."""
        return self.end_of(self.steps)

    def done_by(self, at: float) -> int:
        """How many steps are done at that moment."""
        if at <= self.start:
            return 0
        # growth/2 n^2 + (first - growth/2) n = at - start, each sign in the form that does not
        # cancel; the loops mend what rounding leaves.
        elapsed = at - self.start
        linear = self.first - self.growth / 2
        root = sqrt(linear * linear + 2 * self.growth * elapsed)
        guess = 2 * elapsed / (linear + root) if linear > 0 else (root - linear) / self.growth
        steps = min(int(guess), self.steps)
        while steps < self.steps and self.end_of(steps + 1) <= at:
            steps += 1
        while steps and self.end_of(steps) > at:
            steps -= 1
        return steps

    def cut_at(self, at: float) -> None:
        """End with the step that is in progress at that moment."""
        steps = self.done_by(at)
        if self.end_of(steps) < at:
            steps += 1
        self.steps = min(self.steps, steps)
