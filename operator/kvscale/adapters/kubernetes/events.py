"""Notes about pools, as Kubernetes events (events.k8s.io/v1), said once in two minutes."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.resources import POOL_API, POOL_KIND, collection_path
from kvscale.ports import EventNote

QUIET_SECONDS = 120.0
CONTROLLER = "kvscale.io/kvscale"

_NOTE_BYTES = 1024  # kubernetes v1.37 pkg/apis/core/validation/events.go: NoteLengthLimit
_FIELD_BYTES = 128  # the same: reason, action, reportingInstance

logger = logging.getLogger(__name__)

_Said = tuple[str, str, str]


class Announcer:
    """Posts events. Blocking; failures are logged.

    Args:
        client: the connection.
        instance: who says it: the operator's pod.
        now: epoch seconds that never step back.
    """

    def __init__(self, client: Client, instance: str, now: Callable[[], float]) -> None:
        self._client = client
        self._instance = instance
        self._now = now
        self._lock = Lock()
        self._said: dict[_Said, float] = {}

    def post(self, note: EventNote) -> None:
        """Post it, unless the same was said of the same pool within two minutes."""
        said = (note.pool_uid, note.reason, note.message)
        now = self._now()
        with self._lock:
            self._said = {s: at for s, at in self._said.items() if now - at < QUIET_SECONDS}
            if said in self._said:
                return
            self._said[said] = now
        try:
            path = collection_path("events.k8s.io/v1", "events", note.key.namespace)
            self._client.send("POST", path, self._body(note, now))
        except (ApiError, ValueError) as error:
            logger.warning("event %s about %s was not posted: %s", note.reason, note.key, error)
            with self._lock:
                self._said.pop(said, None)

    def _body(self, note: EventNote, now: float) -> dict[str, object]:
        moment = datetime.fromtimestamp(now, UTC)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": note.key.namespace, "generateName": f"{note.key.name}-"},
            "eventTime": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": CONTROLLER,
            "reportingInstance": _cut(self._instance, _FIELD_BYTES),
            "action": _cut(note.action, _FIELD_BYTES),
            "reason": _cut(note.reason, _FIELD_BYTES),
            "type": note.type,
            "note": _cut(note.message, _NOTE_BYTES),
            "regarding": {
                "apiVersion": POOL_API,
                "kind": POOL_KIND,
                "namespace": note.key.namespace,
                "name": note.key.name,
                "uid": note.pool_uid,
            },
        }


def _cut(text: str, limit: int) -> str:
    """At most so many bytes, whole characters, with a mark where something is missing."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    mark = "..."
    return encoded[: limit - len(mark)].decode(errors="ignore") + mark
