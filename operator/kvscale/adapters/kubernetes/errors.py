"""What can go wrong with a call, as one kind of error with the server's own status."""

import http.client
from collections.abc import Mapping
from typing import Any

UNANSWERED = 0
"""The status where no whole answer came."""


class ApiError(Exception):
    """A call that did not succeed.

    Attributes:
        status: HTTP status; 0 when no whole answer came (refused, reset, timed out).
        reason: CamelCase, the server's own where it gave one ("Expired", "Conflict").
        message: for a person.
        retry_after: seconds that the server asked to wait; None if it did not.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


def refusal(status: Mapping[str, Any], code: int, retry_after: float | None = None) -> ApiError:
    """The error that a `Status` object (an answer's body, or a watch's ERROR event) stands for."""
    reason = status.get("reason") or http.client.responses.get(code, str(code)).replace(" ", "")
    return ApiError(code, str(reason), str(status.get("message") or ""), retry_after)


def no_answer(error: BaseException) -> ApiError:
    """The error for a call that was refused a connection, cut off or timed out."""
    return ApiError(UNANSWERED, "Unreachable", f"{type(error).__name__}: {error}")
