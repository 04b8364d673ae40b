"""The records of one resource, and how far they can be believed."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from kvscale.adapters.kubernetes.project import Malformed
from kvscale.adapters.kubernetes.resources import Resource
from kvscale.core.values import Unknown

R = TypeVar("R")
Raw = Mapping[str, Any]
Entries = dict[str, tuple[int, R]]
"""By uid: the resource version, as a number, and the record."""

FORBIDDEN = "Forbidden"
NOT_LISTED = "NotListed"
STALE = "Stale"

_REMEMBERED_DELETIONS = 4096

logger = logging.getLogger(__name__)


class Cache(Generic[R]):
    """Thread-safe: one reflector writes, anybody reads.

    Keyed by uid, so an object that was created again under its old name is another one.

    Args:
        resource: what is kept.
        namespace: where; "" for everywhere.
        now: seconds that never step back.
        stale_after: seconds without a word from the server after which nothing here is believed.
    """

    def __init__(
        self,
        resource: Resource[R],
        namespace: str,
        now: Callable[[], float],
        stale_after: float,
    ) -> None:
        self.resource = resource
        self.label = (
            f"{resource.group_resource} in {namespace}" if namespace else resource.group_resource
        )
        self._now = now
        self._stale_after = stale_after
        self._lock = Lock()
        self._entries: Entries[R] = {}
        self._amended: dict[str, int] = {}
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED_DELETIONS)
        self._listed = False
        self._contact: float | None = None
        self._failure: Unknown | None = None

    def records(self) -> tuple[R, ...]:
        """All records, in no particular order."""
        with self._lock:
            return tuple(record for _, record in self._entries.values())

    def problem(self) -> Unknown | None:
        """Why the records must not be used; None when they may.

        Reason `Forbidden` when the server refuses (for as long as a dead watch is tolerated, a
        refusal after success counts as a failure only: a server that starts refuses briefly).
        """
        with self._lock:
            age = self._age()
            silent = age is None or age > self._stale_after
            if self._listed and not silent:
                return None
            failure = self._failure
            if failure is not None and failure.reason == FORBIDDEN:
                return failure
            why = f" ({failure.message})" if failure is not None else ""
            if not self._listed:
                return Unknown(NOT_LISTED, f"{self.label}: not listed yet{why}")
            return Unknown(STALE, f"{self.label}: no word from the API server for {age:.0f} s{why}")

    def age(self) -> float | None:
        """Seconds since the server last answered or sent something; None before the first time."""
        with self._lock:
            return self._age()

    def _age(self) -> float | None:
        return None if self._contact is None else self._now() - self._contact

    def contact(self) -> None:
        """The server answered or sent something."""
        with self._lock:
            self._contact = self._now()
            self._failure = None

    def failed(self, failure: Unknown) -> None:
        """The last attempt failed; the records stay until they are too old."""
        with self._lock:
            self._failure = failure

    def project_into(self, entries: Entries[R], raws: Iterable[Raw]) -> None:
        """Project listed objects and add them; one that cannot be read is left out, and logged."""
        for raw in raws:
            projected = self._project(raw)
            if projected is not None:
                uid, version, record = projected
                entries[uid] = (version, record)

    def replace(self, entries: Entries[R]) -> None:
        """A complete list: what is not in it is gone."""
        with self._lock:
            for uid, version in self._amended.items():
                # Listed before our own write, which the coming watch will bring anyway.
                if uid in entries and entries[uid][0] < version and uid in self._entries:
                    entries[uid] = self._entries[uid]
            self._amended.clear()
            self._deleted.clear()
            self._entries = entries
            self._listed = True

    def upsert(self, raw: Raw) -> bool:
        """An object was added or modified; whether that is a change to anybody.

        Older than what is known, or deleted already: ignored.
        """
        projected = self._project(raw)
        if projected is None:
            return self._drop(_uid(raw), remember=False)
        uid, version, record = projected
        with self._lock:
            known = self._entries.get(uid)
            if uid in self._deleted or (known is not None and version < known[0]):
                return False
            self._entries[uid] = (version, record)
            return known is None or not self.resource.same(known[1], record)

    def delete(self, raw: Raw) -> bool:
        """An object was deleted; whether that is a change to anybody."""
        return self._drop(_uid(raw), remember=True)

    def _drop(self, uid: str, *, remember: bool) -> bool:
        with self._lock:
            if remember and uid:
                self._deleted.append(uid)
            self._amended.pop(uid, None)
            return self._entries.pop(uid, None) is not None

    def amend(self, uid: str, version: int, change: Callable[[R], R]) -> None:
        """Show our own write at once; events from before it are then older than what is known."""
        with self._lock:
            known = self._entries.get(uid)
            if known is not None and known[0] < version:
                self._entries[uid] = (version, change(known[1]))
                self._amended[uid] = version

    def _project(self, raw: Raw) -> tuple[str, int, R] | None:
        try:
            record = self.resource.project(raw)
            uid = _uid(raw)
            if not uid:
                raise Malformed("metadata.uid is absent")  # noqa: TRY301 - same answer as below
        except Malformed as error:
            logger.warning("%s %s is left out: %s", self.label, _name(raw), error)
            return None
        return None if record is None else (uid, _version(raw), record)


def _metadata(raw: Raw) -> Raw:
    value = raw.get("metadata")
    return value if isinstance(value, dict) else {}


def _uid(raw: Raw) -> str:
    return str(_metadata(raw).get("uid") or "")


def _name(raw: Raw) -> str:
    metadata = _metadata(raw)
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}".lstrip("/")


def _version(raw: Raw) -> int:
    return version_number(str(_metadata(raw).get("resourceVersion") or ""))


def version_number(resource_version: str) -> int:
    """A resource version as a number; 0 where it is none.

    Versions of one resource can be compared (kubernetes v1.37 docs, "Resource versions";
    KEP-5504). Where a server's cannot, every event counts as new.
    """
    return int(resource_version) if resource_version.isdecimal() else 0
