"""A Deployment and its InferencePool on a real API server: what a test applies, sees and awaits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from localcluster import Cluster, KubectlError, eventually
from support.engine_pages import EnginePages

NODES = {"rig.kvscale.io/node": "shared"}
"""Label and nodeSelector of a node that is large enough for every test."""


class Target:
    """A Deployment and the InferencePool of the same name, as a test sees them."""

    def __init__(self, cluster: Cluster, namespace: str, name: str = "llama") -> None:
        self._cluster = cluster
        self.namespace = namespace
        self.name = name

    @property
    def scale_path(self) -> str:
        """Of the /scale subresource."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}/scale"

    @property
    def status_path(self) -> str:
        """Of the pool's /status."""
        kind = "inferencepools"
        return f"/apis/kvscale.io/v1alpha1/namespaces/{self.namespace}/{kind}/{self.name}/status"

    def deploy(self, replicas: int = 1, *, ready: bool = True, **template: Any) -> Target:
        """Create the Deployment and, unless told otherwise, wait until its pods are ready."""
        document = deployment(self.name, replicas, **template)
        self._cluster.apply(json.dumps(document), namespace=self.namespace)
        if ready:
            eventually(lambda: self.ready_pods() == replicas, f"{replicas} ready pods")
        return self

    def declare(self, **spec: Any) -> Target:
        """Apply the pool: the fields of its spec beside `targets`."""
        document = pool(self.name, **spec)
        self._cluster.apply(json.dumps(document), namespace=self.namespace)
        return self

    def replicas(self) -> int:
        """What the Deployment's spec asks for."""
        answer: int = self.deployment()["spec"]["replicas"]
        return answer

    def deployment(self) -> dict[str, Any]:
        """As stored, with its managed fields."""
        return self._cluster.get(
            "deployment", self.name, "-n", self.namespace, "--show-managed-fields"
        )

    def pods(self) -> list[dict[str, Any]]:
        """Pods of the Deployment that are not on their way out."""
        found = self._cluster.get("pods", "-l", f"app={self.name}", "-n", self.namespace)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready_pods(self) -> int:
        """How many pods are ready."""
        return sum(is_true(pod, "Ready") for pod in self.pods())

    def pool(self) -> dict[str, Any]:
        """The pool as stored."""
        return self._cluster.get("inferencepools.kvscale.io", self.name, "-n", self.namespace)

    def status(self) -> dict[str, Any]:
        """The pool's status; {} while there is none."""
        found: dict[str, Any] = self.pool().get("status", {})
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """One condition of the pool; {} while there is none."""
        conditions = self.status().get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})

    def scale(self, replicas: int) -> None:
        """What a person does: kubectl scale."""
        self._cluster.kubectl(
            "scale", f"deployment/{self.name}", f"--replicas={replicas}", "-n", self.namespace
        )

    def annotate(self, *annotations: str) -> None:
        """Annotate the pool: "key=value", or "key-" to take it off."""
        self._cluster.kubectl(
            "annotate", f"kvp/{self.name}", *annotations, "-n", self.namespace, "--overwrite"
        )

    def until(self, check: Callable[[Target], Any], what: str, *, within: float = 30.0) -> Any:
        """Wait until the check is true of this target, and return its answer."""
        return eventually(lambda: check(self), what, within=within, retry_on=(KubectlError,))

    def until_condition(
        self, kind: str, status: str, reason: str = "", *, within: float = 30.0
    ) -> dict[str, Any]:
        """Wait for a condition with that status and, if given, reason."""

        def check(target: Target) -> dict[str, Any]:
            found = target.condition(kind)
            assert found.get("status") == status, found
            assert reason in ("", found["reason"]), found
            return found

        answer: dict[str, Any] = self.until(check, f"{kind}={status} {reason}", within=within)
        return answer

    def until_replicas(self, replicas: int, *, within: float = 30.0) -> None:
        """Wait for a count of the Deployment's spec."""
        self.until(
            lambda target: target.replicas() == replicas, f"{replicas} replicas", within=within
        )

    def until_rounds(self, pages: EnginePages, rounds: int = 3) -> None:
        """Wait until the operator has asked a pod for its metrics so many times more."""
        pod = next(one for one in self.pods() if is_true(one, "Ready"))["metadata"]["name"]
        goal = pages.asked(self.namespace, pod) + rounds
        self.until(lambda _: pages.asked(self.namespace, pod) >= goal, f"{rounds} more rounds")


def deployment(name: str, replicas: int, **template: Any) -> dict[str, Any]:
    """A vLLM server for Llama 3.1 8B on one GPU of the shared node; `template` is pod spec."""
    container = {
        "name": "vllm",
        "image": "docker.io/vllm/vllm-openai:v0.32.0",
        "args": ["--model=meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=8192"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": NODES, "containers": [container]} | template,
            },
        },
    }


def pool(name: str, **spec: Any) -> dict[str, Any]:
    """A pool for the Deployment of that name, planned at the median so that numbers are round."""
    return {
        "apiVersion": "kvscale.io/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": {"targets": [{"ref": {"name": name}}], "planning": {"percentile": 50}} | spec,
    }


def is_true(thing: dict[str, Any], kind: str) -> bool:
    """Whether an object's condition of that type is True."""
    conditions = thing.get("status", {}).get("conditions", [])
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
