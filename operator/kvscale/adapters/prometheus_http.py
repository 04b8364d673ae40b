"""HTTP below prometheus_api_client, with the limits that the client itself does not have.

prometheus_api_client 0.7.2 reads answers of any size, follows redirects, retries by itself, and
its timeout bounds each wait on the socket, not the whole: a server that drips one byte a second
holds the caller for ever. It accepts a session of the caller's, and this is one.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import urllib3
from prometheus_api_client import PrometheusConnect

from kvscale.adapters.sources import PrometheusSettings

_OK = 200
_CHUNK_BYTES = 65_536
_TOKEN_BYTES = 16_384


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class TooLargeError(Exception):
    """The answer is larger than the configured limit."""


class TokenError(Exception):
    """The bearer token file cannot be read or holds no token."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client reads of a response; the body of an error is dropped unread."""

    status_code: int
    content: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: it is none.
        """
        return orjson.loads(self.content)


class BoundedSession:
    """The part of `requests.Session` that PrometheusConnect uses, over urllib3.

    No redirects, no retries, no proxy and no credentials from the environment.
    """

    cert = None

    def __init__(
        self, timeout_seconds: float, max_bytes: int, ca_file: Path | None, give_up: threading.Event
    ) -> None:
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=timeout_seconds, read=timeout_seconds),
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if ca_file is None else str(ca_file),
        )
        self._max_bytes = max_bytes
        self._give_up = give_up
        self.verify = True

    def mount(self, prefix: str, adapter: object) -> None:
        """PrometheusConnect mounts its retries here; there are none."""

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def request(
        self,
        *,
        method: str,
        url: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        **_given_to_the_pool: object,
    ) -> Answer:
        """One request, read within the limits.

        Raises:
            urllib3.exceptions.HTTPError: no connection, no answer in time, broken answer.
            TooLargeError: as soon as the body is over the limit.
            AbandonedError: as soon as `give_up` is set and the server sends or times out.
        """
        response = self._pool.request(
            method, url, fields=dict(params), headers=headers, redirect=False, preload_content=False
        )
        try:
            if response.status != _OK:
                return Answer(response.status, b"")
            body = bytearray()
            while chunk := response.read1(_CHUNK_BYTES, decode_content=False):
                body += chunk
                if len(body) > self._max_bytes:
                    raise TooLargeError
                if self._give_up.is_set():
                    raise AbandonedError
            return Answer(response.status, bytes(body))
        finally:
            response.close()


def instant_query(settings: PrometheusSettings, promql: str, give_up: threading.Event) -> list[Any]:
    """The elements of an instant query's answer; blocks, hence for a thread.

    Token and CA are read here, each time, so that a rotation is followed.

    Raises:
        PrometheusApiClientException: the status was not 200.
        urllib3.exceptions.HTTPError, OSError, TooLargeError, AbandonedError, TokenError: as named.
        ValueError, KeyError, TypeError: the answer is no result of a query.
    """
    headers = dict(settings.headers)
    if settings.bearer_token_file is not None:
        headers["Authorization"] = f"Bearer {_token(settings.bearer_token_file)}"
    session = BoundedSession(
        settings.timeout_seconds, settings.max_body_bytes, settings.ca_file, give_up
    )
    with PrometheusConnect(settings.url.rstrip("/"), headers=headers, session=session) as client:
        elements = client.custom_query(
            promql,
            params={
                # Servers from 2.54 on stop at the limit; earlier ones pass over it.
                "limit": str(settings.max_series + 1),
                "timeout": f"{round(settings.timeout_seconds * 1000)}ms",
            },
        )
    if not isinstance(elements, list):
        raise TypeError("an instant vector is a list")
    return elements


def _token(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            token = file.read(_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(type(error).__name__) from None
    if not token or not token.isprintable() or " " in token:
        raise TokenError("no token in the file")
    return token
