"""Which engine gets the next request."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol


class Policy(StrEnum):
    """How a router chooses."""

    LEAST_LOADED = "LeastLoaded"
    ROUND_ROBIN = "RoundRobin"


class Loaded(Protocol):
    """What a router looks at."""

    @property
    def outstanding(self) -> int:
        """Requests that the engine has not answered yet."""
        ...


class Router:
    """Chooses among engines; deterministic, the earlier engine wins a tie."""

    def __init__(self, policy: Policy = Policy.LEAST_LOADED) -> None:
        self.policy = policy
        self._turn = 0

    def choose(self, engines: Sequence[Loaded]) -> int:
        """The position of the engine that serves the next request; at least one must be there."""
        if not engines:
            raise ValueError("no engine to choose from: hold the request until one is ready")
        if self.policy is Policy.ROUND_ROBIN:
            self._turn += 1
            return (self._turn - 1) % len(engines)
        return min(range(len(engines)), key=lambda i: engines[i].outstanding)
