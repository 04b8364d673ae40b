"""The right to write: a coordination.k8s.io/v1 Lease, with client-go's rules.

Source: kubernetes v1.37 client-go/tools/leaderelection/leaderelection.go. Clocks of two machines
are never compared: a holder counts as alive until its record has not changed for the lease's
duration, measured here from the moment that we saw it change.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from kvscale.adapters.kubernetes.client import FIELD_MANAGER, Client
from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.project.fields import mapping, text, whole
from kvscale.adapters.kubernetes.resources import collection_path, object_path
from kvscale.core.values import Known, Unknown

API = "coordination.k8s.io/v1"
NOT_LEADER = "NotLeader"
UNAVAILABLE = "LeaseUnavailable"

_NOT_FOUND = 404
_CONFLICT = 409
_QUERY = {"fieldManager": FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds, with client-go's meaning and proportions.

    Attributes:
        duration: others wait that long for a silent holder.
        renew_deadline: a holder that could not renew for that long steps down; less than
            `duration`, so that it has stopped before another starts.
        renew_every: a holder renews when its last renewal is older; 0: at every call.
    """

    duration: int = 30
    renew_deadline: float = 20.0
    renew_every: float = 4.0

    def __post_init__(self) -> None:
        if not 0 <= self.renew_every < self.renew_deadline < self.duration:
            raise ValueError(
                "lease times: give renew_every < renew_deadline < duration, as in 4, 20, 30"
            )


class KubernetesLease:
    """The `Lease` port.

    Args:
        client: the connection.
        namespace, name: of the Lease.
        identity: ours; two processes must never share one, so more than a pod's name.
        now: epoch seconds that never step back.
        times: see there.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], float],
        times: LeaseTimes | None = None,
    ) -> None:
        self._client = client
        self._collection = collection_path(API, "leases", namespace)
        self._path = object_path(API, "leases", namespace, name)
        self._metadata = {"namespace": namespace, "name": name}
        self._identity = identity
        self._now = now
        self._times = times or LeaseTimes()
        self._lock = Lock()
        self._lease: dict[str, Any] = {}  # as last seen
        self._seen_at = 0.0  # when its spec last changed before our eyes
        self._renewed_at: float | None = None  # our last successful renewal; None: not the holder

    async def acquire(self) -> Known[str] | Unknown:
        """Take or renew the lease; `Known.at` is the moment of the renewal it rests on."""
        return await asyncio.to_thread(self._acquire)

    async def release(self) -> None:
        """Give it up, so that another need not wait; after the last write, best effort."""
        await asyncio.to_thread(self._release)

    def _acquire(self) -> Known[str] | Unknown:
        with self._lock:
            # The time before the call: others count from when they see the record, which is later.
            started = self._now()
            held = self._renewed_at
            if held is not None and started - held < self._times.renew_every:
                return Known(self._identity, held)
            try:
                refusal = self._take(started)
            except ApiError as error:
                if error.status == _CONFLICT:
                    self._renewed_at = None
                    return Unknown(NOT_LEADER, f"another operator was faster at {self._where()}")
                refusal = Unknown(UNAVAILABLE, f"{self._where()}: {error}")
            renewed = self._renewed_at
            # Also after a success: the call itself may have taken too long.
            if renewed is not None and self._now() - renewed < self._times.renew_deadline:
                return Known(self._identity, renewed)
            self._renewed_at = None
            return refusal or Unknown(UNAVAILABLE, f"{self._where()}: the renewal took too long")

    def _take(self, started: float) -> Unknown | None:
        """Read the record and write ours, unless its holder is alive: that is the answer then.

        Raises:
            ApiError: a call failed.
        """
        try:
            self._observe(self._client.get(self._path))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            body = self._body({}, {}, started)
            self._observe(self._client.send("POST", self._collection, body, _QUERY))
            self._renewed_at = started
            return None
        spec = mapping(self._lease, "spec")
        holder = text(spec, "holderIdentity")
        if holder not in {"", self._identity}:
            self._renewed_at = None
            duration = whole(spec, "leaseDurationSeconds") or self._times.duration
            if self._now() - self._seen_at < duration:
                return Unknown(NOT_LEADER, f"{self._where()} is held by {holder}")
        body = self._body(mapping(self._lease, "metadata"), spec, started)
        self._observe(self._client.send("PUT", self._path, body, _QUERY))
        self._renewed_at = started
        return None

    def _observe(self, lease: dict[str, Any]) -> None:
        if mapping(lease, "spec") != mapping(self._lease, "spec"):
            self._seen_at = self._now()
        self._lease = lease

    def _body(
        self, metadata: Any, spec: Any, started: float, *, release: bool = False
    ) -> dict[str, Any]:
        moment = datetime.fromtimestamp(started, UTC)
        at = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
        ours = text(spec, "holderIdentity") == self._identity
        transitions = whole(spec, "leaseTransitions") or 0
        kept = {k: v for k, v in metadata.items() if k != "managedFields"}
        return {
            "apiVersion": API,
            "kind": "Lease",
            "metadata": kept or self._metadata,
            "spec": {
                "holderIdentity": "" if release else self._identity,
                "leaseDurationSeconds": 1 if release else self._times.duration,
                "acquireTime": text(spec, "acquireTime") if ours else at,
                "renewTime": at,
                "leaseTransitions": transitions if ours or not spec else transitions + 1,
            },
        }

    def _release(self) -> None:
        with self._lock:
            if self._renewed_at is None:
                return
            self._renewed_at = None
            metadata, spec = mapping(self._lease, "metadata"), mapping(self._lease, "spec")
            body = self._body(metadata, spec, self._now(), release=True)
            try:
                self._client.send("PUT", self._path, body, _QUERY)
            except ApiError:
                return  # it runs out by itself

    def _where(self) -> str:
        return f"Lease {self._metadata['namespace']}/{self._metadata['name']}"
