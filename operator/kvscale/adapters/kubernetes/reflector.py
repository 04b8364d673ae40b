"""List and watch: keeps one cache equal to the server, whatever happens on the way.

client-go's semantics (kubernetes v1.37 client-go/tools/cache/reflector.go and tools/pager):
a complete list replaces everything; the watch goes on from the list's version; a version that has
expired means a new list; a broken watch goes on from the last version seen.

One daemon thread for each reflector. It never ends by itself: whatever fails is logged, waited
for and tried again.
"""

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from kvscale.adapters.kubernetes.cache import FORBIDDEN, Cache, Entries
from kvscale.adapters.kubernetes.client import Client, Stream
from kvscale.adapters.kubernetes.errors import ApiError, refusal
from kvscale.core.values import Unknown

R = TypeVar("R")

_FORBIDDEN = 403
_NOT_FOUND = 404
_GONE = 410
_VERSION_STAYS_GOOD = frozenset({0, 429, 502, 503})
"""After these (0: no answer) the watch can go on where it was; anything else asks for a list."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How eagerly a reflector works; seconds.

    Attributes:
        page: objects in one page of a list.
        first_wait, longest_wait: bounds of the waits after failures, which double.
        forbidden_wait: longest wait while the server refuses us.
        absent_wait: wait while the resource does not exist.
        watch_seconds: a watch is ended by the server after one to two times that.
    """

    page: int = 500
    first_wait: float = 1.0
    longest_wait: float = 30.0
    forbidden_wait: float = 60.0
    absent_wait: float = 60.0
    watch_seconds: int = 300


class Reflector(Generic[R]):
    """Feeds a cache from one collection.

    Args:
        client: the connection.
        cache: what is fed.
        path: the collection.
        on_change: called after every change, on the reflector's thread.
        pace: how eagerly.
        wait: waits up to so many seconds, True when the reflector is to stop; None: its own.

    Attributes:
        cache: what is fed.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache[R],
        path: str,
        *,
        on_change: Callable[[], None],
        pace: Pace,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._client = client
        self.cache = cache
        self._path = path
        self._on_change = on_change
        self._pace = pace
        self._stopped = Event()
        self._wait = wait or self._stopped.wait
        self._version = ""  # to watch from; "" when a list is needed
        self._failures = 0  # since the last event
        self._stream: Stream | None = None
        self._stream_lock = Lock()
        self._thread = Thread(target=self._run, name=f"reflector {cache.label}", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end: a watch is cut, a list ends after the page in hand."""
        self._stopped.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.interrupt()

    def join(self, seconds: float) -> bool:
        """Wait for the thread's end; whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if self._version:
                    self._watch()
                else:
                    self._list()
            except ApiError as error:
                if not self._stopped.is_set():
                    self._wait(self._after(error))
            except Exception:
                # Not foreseen; but a thread that ends unseen would freeze its cache for ever.
                logger.exception("%s: listing again", self.cache.label)
                self.cache.failed(Unknown("InternalError", "unexpected error, see the log"))
                self._version = ""
                self._wait(self._longer(self._pace.longest_wait))

    def _list(self) -> None:
        """A complete list into the cache.

        Raises:
            ApiError: no complete list could be had; the cache is as before.
        """
        try:
            entries, version = self._collect(self._pace.page)
        except ApiError as error:
            if error.status != _GONE:
                raise
            # The pages outlived the version that they belong to: all at once, as client-go does.
            entries, version = self._collect(0)
        if not self._stopped.is_set():
            self.cache.replace(entries)
            self._version = version
            self._on_change()

    def _collect(self, page: int) -> tuple[Entries[R], str]:
        """All pages (one page of everything for 0), and the version that they show."""
        entries: Entries[R] = {}
        query = {"limit": str(page)} if page else {}
        while True:
            answer = self._client.get_page(self._path, query)
            self.cache.contact()
            metadata = answer.get("metadata") or {}
            self.cache.project_into(entries, answer.get("items") or ())
            more = metadata.get("continue")
            if not more or self._stopped.is_set():
                return entries, str(metadata.get("resourceVersion") or "")
            query["continue"] = str(more)

    def _watch(self) -> None:
        """Follow the changes until the server ends the watch.

        Raises:
            ApiError: it could not be opened, broke, fell silent or reported an error; what came
                before is in the cache, and `_version` says where it stands.
        """
        heard = False
        query = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds()),
        }
        with self._open(query) as stream:
            self.cache.contact()
            for event in stream:
                if self._stopped.is_set():
                    return
                self.cache.contact()
                self._take(event)
                heard = True
                self._failures = 0
        if not heard:
            # A server that opens and ends watches at once must not be asked in a tight loop.
            self._wait(self._longer(self._pace.longest_wait))

    @contextmanager
    def _open(self, query: dict[str, str]) -> Iterator[Stream]:
        stream = self._client.stream(self._path, query)
        with self._stream_lock:
            self._stream = stream
        try:
            # `stop` either saw the stream, or had set the flag before this line.
            if self._stopped.is_set():
                stream.interrupt()
            yield stream
        finally:
            with self._stream_lock:
                self._stream = None
            stream.close()

    def _take(self, event: dict[str, Any]) -> None:
        """Apply one event.

        Raises:
            ApiError: it is an ERROR event; a new list is needed.
        """
        kind = event.get("type")
        raw = event.get("object")
        raw = raw if isinstance(raw, dict) else {}
        if kind == "ERROR":
            self._version = ""
            raise refusal(raw, int(raw.get("code") or 500))
        changed = False
        match kind:
            case "ADDED" | "MODIFIED":
                changed = self.cache.upsert(raw)
            case "DELETED":
                changed = self.cache.delete(raw)
            case "BOOKMARK":
                pass
            case _:
                logger.warning("%s: event of unknown type %r", self.cache.label, kind)
        metadata = raw.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        self._version = str(version or self._version)
        if changed:
            self._on_change()

    def _after(self, error: ApiError) -> float:
        """Take note of a failure; how long to wait before the next attempt."""
        label = self.cache.label
        if error.status not in _VERSION_STAYS_GOOD:
            self._version = ""
        if error.status == _NOT_FOUND and self.cache.resource.optional:
            logger.info("%s: not installed; looking again later", label)
            self.cache.contact()
            self.cache.replace({})
            self._on_change()
            return self._pace.absent_wait
        if error.status == _GONE and not self._failures:
            logger.info("%s: the watched version has expired; listing again", label)
            self._failures += 1
            return 0.0
        logger.log(logging.DEBUG if self._failures else logging.WARNING, "%s: %s", label, error)
        if error.status == _FORBIDDEN:
            self.cache.failed(
                Unknown(FORBIDDEN, f"{label}: grant get, list and watch ({error.message})")
            )
            return self._longer(self._pace.forbidden_wait)
        self.cache.failed(Unknown(error.reason, str(error)))
        return max(self._longer(self._pace.longest_wait), error.retry_after or 0.0)

    def _longer(self, longest: float) -> float:
        """The next wait: doubling, with jitter over its upper half."""
        ceiling = min(longest, self._pace.first_wait * 2.0 ** min(self._failures + 1, 16))
        self._failures += 1
        return ceiling * (0.5 + 0.5 * self._spread())

    def _watch_seconds(self) -> int:
        return int(self._pace.watch_seconds * (1.0 + self._spread()))

    def _spread(self) -> float:
        """0 to 1, by name and attempt: as good as chance here, and the same in every run."""
        return zlib.crc32(f"{self.cache.label} {self._failures}".encode()) / 2**32
