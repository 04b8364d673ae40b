"""Waiting for a condition, with a deadline and an error that says what was seen last."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    check: Callable[[], T],
    what: str = "the condition",
    *,
    within: float = 30.0,
    every: float = 0.1,
    retry_on: tuple[type[Exception], ...] = (),
    give_up: Callable[[], str | None] | None = None,
) -> T:
    """Call `check` until it returns something true, and return that.

    Args:
        check: the question; an AssertionError (or one of `retry_on`) counts as "not yet".
        what: the condition in words, for the error.
        within: deadline in seconds; `check` is asked at least once, and once more at the end.
        every: pause between two calls, in seconds.
        retry_on: exceptions that mean "not yet", such as KubectlError.
        give_up: asked after every "not yet"; a text means that waiting longer is in vain.

    Raises:
        AssertionError: the deadline passed (a failed test, not a broken one), or `give_up`
            spoke; with the last answer.
    """
    not_yet: tuple[type[Exception], ...] = (AssertionError, *retry_on)
    deadline = time.monotonic() + within
    while True:
        last: object
        late = time.monotonic() >= deadline
        cause: Exception | None = None
        try:
            answer = check()
        except not_yet as error:
            last, cause = error, error
        else:
            if answer:
                return answer
            last = answer
        hopeless = give_up() if give_up else None
        if hopeless:
            raise AssertionError(f"{what}: {hopeless}") from cause
        if late:
            raise AssertionError(f"{what}: not within {within:g} s; last seen: {last}") from cause
        time.sleep(every)
