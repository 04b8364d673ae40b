"""What a test may ask of a cluster, however its control plane runs."""

import json
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from localcluster.go_build import Say
from localcluster.kubeconfig import write_kubeconfig
from localcluster.nodes import gpu_node
from localcluster.processes import Child
from localcluster.waiting import eventually

STAGES = Path(__file__).parent / "stages"
KUBECTL_SECONDS = 120.0


class KubectlError(RuntimeError):
    """kubectl refused; the message is the command and what it wrote to standard error."""


class ClusterError(RuntimeError):
    """The control plane did not come up, or was asked for something it does not have."""


class Cluster(AbstractContextManager["Cluster"], ABC):
    """A running control plane with kwok's fake kubelets; a context manager.

    Attributes:
        directory: kubeconfigs, keys, logs and data; removed at the end if it is our own.
        kubeconfig: an administrator's kubeconfig, self-contained.
    """

    def __init__(
        self, programs: Mapping[str, Path], directory: Path | None = None, say: Say = print
    ) -> None:
        self._programs = programs
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="localcluster-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = self.directory / "admin.kubeconfig"
        self._say = say

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything that was started; harmless when called again."""
        self._close()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """Of the API server."""

    @abstractmethod
    def stop(self, component: str, *, graceful: bool = False) -> None:
        """Stop a component, such as `kube-apiserver`; a crash unless `graceful`."""

    @abstractmethod
    def start(self, component: str) -> None:
        """Start it again, on the same port and data, and wait until it is ready."""

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    @property
    @abstractmethod
    def _authority(self) -> bytes:
        """The CA's certificate, PEM."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - as in subprocess
        """Run kubectl as administrator and return what it prints.

        Raises:
            KubectlError: it failed, or took longer than two minutes.
        """
        return self.kubectl_as(self.kubeconfig, *arguments, input=input)

    def kubectl_as(
        self,
        kubeconfig: Path,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as in subprocess
    ) -> str:
        """Run kubectl as somebody else: the owner of a kubeconfig.

        Raises:
            KubectlError: it failed, or took longer than two minutes.
        """
        # a cache of discovery of its own: the one in the home folder belongs to the user
        common: list[str | Path] = [
            "--kubeconfig",
            kubeconfig,
            "--cache-dir",
            self.directory / "kubectl-cache",
        ]
        try:
            done = subprocess.run(
                [self._programs["kubectl"], *common, *arguments],
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                check=False,
                timeout=KUBECTL_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no answer in time") from error
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get ... -o json`, parsed."""
        answer: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return answer

    def apply(self, documents: str, *, namespace: str = "default") -> str:
        """Apply YAML or JSON documents on the server's side (large CRDs do not fit otherwise).

        Raises:
            KubectlError: a document is refused, or another manager owns a field.
        """
        return self.kubectl(
            "apply", "--server-side", "--namespace", namespace, "-f", "-", input=documents
        )

    def create_namespace(self, name: str) -> str:
        """Create a namespace, ready for pods (its default service account exists)."""
        self.kubectl("create", "namespace", name)
        self.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
        return name

    def add_gpu_node(self, name: str, **settings: Any) -> None:
        """Add a fake GPU node (settings: see `nodes.gpu_node`), ready for pods."""
        node = gpu_node(name, **settings)
        self.apply(json.dumps(node))
        eventually(lambda: self._schedulable(name), f"node {name} ready", retry_on=(KubectlError,))

    def _schedulable(self, name: str) -> bool:
        node = self.get("node", name)
        # the API server taints every new node; the node controller frees it once it is ready
        keys = {taint["key"] for taint in node["spec"].get("taints", [])}
        return "node.kubernetes.io/not-ready" not in keys and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )

    def service_account_kubeconfig(self, namespace: str, name: str, *, seconds: int = 3600) -> Path:
        """A kubeconfig for an existing service account, by the TokenRequest API.

        Raises:
            KubectlError: the account does not exist.
        """
        token = self.kubectl("create", "token", name, "-n", namespace, f"--duration={seconds}s")
        return write_kubeconfig(
            self.directory / f"{namespace}.{name}.kubeconfig",
            self.url,
            self._authority,
            token=token.strip(),
            namespace=namespace,
        )

    def _kwok(self, port: int, log: Path) -> Child:
        """Kwok as a process of ours: it acts as kubelet of the nodes marked as fake."""
        command: list[str | Path] = [
            self._programs["kwok"],
            "--kubeconfig", self.kubeconfig,
            "--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds", "40",
            "--server-address", f"127.0.0.1:{port}",
            "--cidr", "10.128.0.1/12",
        ]  # fmt: skip
        for stage in sorted(STAGES.glob("*.yaml")):
            command += ["--config", stage]
        return Child("kwok", command, log)
