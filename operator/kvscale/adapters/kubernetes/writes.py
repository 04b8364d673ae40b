"""The writes that move something: a replica count, a pool's status. Blocking; values, no errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvscale.adapters.kubernetes.client import APPLY, FIELD_MANAGER, Client
from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.project.fields import mapping, text, whole
from kvscale.adapters.kubernetes.resources import (
    POOL_API,
    POOL_KIND,
    POOLS,
    SCALABLE,
    Resource,
    object_path,
)
from kvscale.core.spec import PoolKey
from kvscale.ports import ScaleWrite, WriteOutcome, WriteResult
from kvscale.records import Json

_FORBIDDEN = 403
_NOT_FOUND = 404
_CONFLICT = 409
_RETRIES = 4  # client-go v0.37 util/retry.DefaultRetry makes five attempts in all
_OUTCOMES = {
    _FORBIDDEN: WriteOutcome.FORBIDDEN,
    _NOT_FOUND: WriteOutcome.NOT_FOUND,
    _CONFLICT: WriteOutcome.CONFLICT,
}


@dataclass(frozen=True, slots=True)
class Scaled:
    """A target after our write.

    Attributes:
        uid: of the workload.
        resource_version: that the write made.
    """

    uid: str
    resource_version: str


class Writer:
    """Writes to the API server.

    A server that asks to wait (Retry-After) is not asked again before that.

    Args:
        client: the connection.
        now: seconds that never step back.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._not_before = 0.0

    def scale(self, write: ScaleWrite) -> tuple[WriteResult, Scaled | None]:
        """PUT the /scale subresource; with the outcome, when applied, what it made.

        The version decided upon is the precondition. A workload's version also moves when only
        its status does (a pod became ready), several times a second in a roll-out; so after a
        conflict /scale is read, and while the count still is the one decided upon, written again
        with the version read, a few times. Any other count is somebody else's: CONFLICT.
        """
        workloads = SCALABLE.get(write.target.kind)
        if workloads is None:
            kinds = " and ".join(sorted(SCALABLE))
            message = f"{write.target.kind} cannot be scaled: kinds are {kinds}"
            return WriteResult(WriteOutcome.FAILED, message), None
        try:
            path = self._object(workloads, write.target.namespace, write.target.name, "scale")
            stored = self._put_scale(path, write, write.resource_version)
            for _ in range(_RETRIES):
                if stored is not None:
                    break
                current = self._client.get(path)
                replicas = whole(mapping(current, "spec"), "replicas") or 0
                if replicas != write.expected_replicas:
                    message = f"replicas is {replicas}, no longer {write.expected_replicas}"
                    return WriteResult(WriteOutcome.CONFLICT, message), None
                version = text(mapping(current, "metadata"), "resourceVersion")
                stored = self._put_scale(path, write, version)
        except (ApiError, ValueError) as error:
            return self._not_applied(error), None
        if stored is None:
            return WriteResult(WriteOutcome.CONFLICT, "the workload changes all the time"), None
        metadata = mapping(stored, "metadata")
        scaled = Scaled(text(metadata, "uid"), text(metadata, "resourceVersion"))
        return WriteResult(WriteOutcome.APPLIED), scaled

    def apply_status(self, key: PoolKey, status: Json) -> WriteResult:
        """Server-side apply of the whole status: fields left out are removed, equal ones free."""
        body = {
            "apiVersion": POOL_API,
            "kind": POOL_KIND,
            "metadata": {"namespace": key.namespace, "name": key.name},
            "status": status,
        }
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            path = self._object(POOLS, key.namespace, key.name, "status")
            self._client.send("PATCH", path, body, query, APPLY)
        except (ApiError, ValueError) as error:
            return self._not_applied(error)
        return WriteResult(WriteOutcome.APPLIED)

    def _put_scale(self, path: str, write: ScaleWrite, version: str) -> dict[str, Any] | None:
        """The Scale as stored; None where the workload has moved on from that version."""
        body: Mapping[str, Any] = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "namespace": write.target.namespace,
                "name": write.target.name,
                "resourceVersion": version,
            },
            "spec": {"replicas": write.replicas},
        }
        try:
            return self._client.send("PUT", path, body, {"fieldManager": FIELD_MANAGER})
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return None

    def _object(self, resource: Resource[Any], namespace: str, name: str, subresource: str) -> str:
        left = self._not_before - self._now()
        if left > 0:
            raise ApiError(
                429, "TooManyRequests", f"the API server asked to wait {left:.0f} s more"
            )
        return object_path(resource.api, resource.name, namespace, name, subresource)

    def _not_applied(self, error: ApiError | ValueError) -> WriteResult:
        if not isinstance(error, ApiError):
            return WriteResult(WriteOutcome.FAILED, str(error))
        if error.retry_after is not None:
            self._not_before = self._now() + error.retry_after
        return WriteResult(_OUTCOMES.get(error.status, WriteOutcome.FAILED), str(error))
