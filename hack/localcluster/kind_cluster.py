"""The same cluster where Docker is at hand: a kind cluster, with kwok beside it."""

import base64
import json
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

from localcluster.cluster import Cluster, ClusterError, KubectlError
from localcluster.go_build import Say
from localcluster.processes import free_ports
from localcluster.waiting import eventually

STATIC_PODS = "/etc/kubernetes/manifests"  # the kubelet runs what lies here
PARKED = "/etc/kubernetes"


class KindCluster(Cluster):
    """A kind cluster of its own name, deleted at the end.

    The GPU nodes are fake here too: kwok runs on this machine, against kind's API server.
    """

    def __init__(
        self, programs: Mapping[str, Path], directory: Path | None = None, say: Say = print
    ) -> None:
        super().__init__(programs, directory, say)
        self.name = f"kvscale-{secrets.token_hex(3)}"
        self._created = False
        self._kwok_child = self._kwok(free_ports(1)[0], self.directory / "logs" / "kwok.log")

    @property
    def url(self) -> str:
        """Of the API server, as kind published it on this machine."""
        return str(self._cluster_entry()["server"])

    def stop(self, component: str, *, graceful: bool = False) -> None:
        """Stop kwok, or a static pod of the control plane (always gracefully, by the kubelet)."""
        if component == "kwok":
            self._kwok_child.stop(graceful=graceful)
            return
        self._move(f"{STATIC_PODS}/{component}.yaml", f"{PARKED}/{component}.yaml")
        if component == "kube-apiserver":
            eventually(lambda: not self._api_answers(), f"{component} stopped", within=90)

    def start(self, component: str) -> None:
        """Start it again, and wait until the API server answers."""
        if component == "kwok":
            self._kwok_child.start()
            return
        self._move(f"{PARKED}/{component}.yaml", f"{STATIC_PODS}/{component}.yaml")
        eventually(self._api_answers, f"{component} started", within=120)

    def _open(self) -> None:
        self._say(f"creating kind cluster {self.name}")
        self._created = True
        _run("kind", "create", "cluster", "--name", self.name, "--wait", "180s",
             "--kubeconfig", str(self.kubeconfig))  # fmt: skip
        self._kwok_child.start()
        self._say(f"kind cluster {self.name} ready; KUBECONFIG={self.kubeconfig}")

    def _close(self) -> None:
        self._kwok_child.stop()
        if self._created:
            self._created = False
            _run("kind", "delete", "cluster", "--name", self.name)

    def _move(self, source: str, target: str) -> None:
        _run("docker", "exec", f"{self.name}-control-plane", "mv", source, target)

    def _api_answers(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
        except KubectlError:
            return False
        return True

    @property
    def _authority(self) -> bytes:
        return base64.b64decode(self._cluster_entry()["certificate-authority-data"])

    def _cluster_entry(self) -> dict[str, str]:
        shown = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        entry: dict[str, str] = shown["clusters"][0]["cluster"]
        return entry


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed: {done.stderr.strip()}")
