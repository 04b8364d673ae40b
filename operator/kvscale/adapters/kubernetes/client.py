"""One connection to the API server: a call, a stream.

The official client does configuration, authentication and TLS. Its typed decoding is left unused:
it costs 20 times what orjson costs, and a record keeps a few fields only.
"""

import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import orjson
import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

import kvscale
from kvscale.adapters.kubernetes.errors import UNANSWERED, ApiError, no_answer, refusal
from kvscale.core.decide.ownership import OUR_MANAGER

FIELD_MANAGER = OUR_MANAGER
JSON = "application/json"
APPLY = "application/apply-patch+yaml"

_MAX_RETRY_AFTER = 300.0
_POOL_SIZE = 64
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds; each silence of a socket is bounded, never a whole transfer.

    Attributes:
        connect: to be connected.
        page: longest silence while a page of a list is awaited.
        call: the same for the small calls, which a tick waits for.
        watch: longest silence of a watch. The API server sends a bookmark every 60 s
            (kubernetes v1.37 apiserver/pkg/storage/cacher: bookmarkFrequency), so more than that
            is a dead connection.
    """

    connect: float = 5.0
    page: float = 30.0
    call: float = 10.0
    watch: float = 75.0


class Client:
    """Calls the API server. Blocking: for threads, never for the event loop.

    Args:
        configuration: from `load_configuration`.
        timeouts: limits of every call.
    """

    def __init__(self, configuration: Configuration, timeouts: Timeouts | None = None) -> None:
        # Retries are ours: urllib3 would repeat a write whose answer was lost.
        configuration.retries = False
        configuration.connection_pool_maxsize = _POOL_SIZE
        self._api = ApiClient(configuration)
        self._api.user_agent = f"kvscale/{kvscale.__version__}"
        self.timeouts = timeouts or Timeouts()

    def get_page(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Read a page of a list.

        Raises:
            ApiError: there is no whole answer, or it is none of 2xx.
        """
        return self._call("GET", path, query=query, silence=self.timeouts.page)

    def get(self, path: str) -> dict[str, Any]:
        """Read an object.

        Raises:
            ApiError: there is no whole answer, or it is none of 2xx.
        """
        return self._call("GET", path, silence=self.timeouts.call)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """Write an object (POST, PUT, PATCH); the answer is the object as stored.

        Raises:
            ApiError: there is no whole answer (the write may have happened), or it is none of 2xx.
        """
        return self._call(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            silence=self.timeouts.call,
        )

    def stream(self, path: str, query: Mapping[str, str]) -> "Stream":
        """Open a watch.

        Raises:
            ApiError: it was not opened.
        """
        return Stream(self._open("GET", path, query=query, silence=self.timeouts.watch))

    def close(self) -> None:
        """Give idle connections back."""
        self._api.close()  # type: ignore[no-untyped-call]  # the client has no types

    def _call(
        self,
        method: str,
        path: str,
        *,
        silence: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        response = self._open(
            method, path, silence=silence, query=query, body=body, content_type=content_type
        )
        return _decode(_read(response))

    def _open(
        self,
        method: str,
        path: str,
        *,
        silence: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": JSON, "Content-Type": content_type}
        if body is None:
            del headers["Content-Type"]
        try:
            request = self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=None if body is None else dict(body),
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*request, _request_timeout=(self.timeouts.connect, silence))
        except _NO_ANSWER as error:
            raise no_answer(error) from error
        response: urllib3.BaseHTTPResponse = answer.response
        if not http.HTTPStatus.OK <= response.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise _refused(response)
        return response


class Stream:
    """The lines of a watch, as they come; `interrupt` ends it from another thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._lock = Lock()
        self._closed = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Decoded events until the server ends the stream.

        Raises:
            ApiError: the connection broke or fell silent, or sent something that is no JSON.
        """
        rest = b""
        try:
            for chunk in self._response.stream(_CHUNK_BYTES, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield _decode(line)
        except _NO_ANSWER as error:
            raise no_answer(error) from error

    def interrupt(self) -> None:
        """Let the thread that reads see the end; harmless when there is nothing to end."""
        with self._lock:
            if not self._closed:
                try:
                    self._response.shutdown()
                except (OSError, RuntimeError, ValueError):
                    # Ended by itself meanwhile: urllib3 has let go of the socket.
                    return

    def close(self) -> None:
        """Let go of the connection; a watch that is left early cannot be used again."""
        with self._lock:
            self._closed = True
            self._response.close()


_NO_ANSWER = (
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
    ApiException,  # the client wraps TLS errors in it
    ConfigException,  # a token file or credential plug-in that fails at the moment
)


def _refused(response: urllib3.BaseHTTPResponse) -> ApiError:
    retry_after = _seconds(response.headers.get("Retry-After"))
    try:
        status = _decode(_read(response))
    except ApiError:
        status = {}  # a proxy's page, or cut off: the status code says enough
    return refusal(status, response.status, retry_after)


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds, bounded; the API server never sends the form with a date."""
    if header is None or not header.isascii() or not header.isdigit():
        return None
    return min(float(header), _MAX_RETRY_AFTER)


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.data
    except _NO_ANSWER as error:
        raise no_answer(error) from error
    finally:
        response.close()


def _decode(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(UNANSWERED, "Unreadable", f"the answer is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(UNANSWERED, "Unreadable", "the answer is no JSON object")
    return value
