"""The whole operator on the real API server: a child process under the chart's own account.

The account, its roles and their bindings are what Helm renders; the operator runs here instead of
in the chart's Deployment, as kwok runs no containers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from localcluster import Cluster, KubectlError, eventually, helm
from localcluster.processes import Child, free_ports
from support.engine_pages import EnginePages

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kvscale"
CRD = ROOT / "crds" / "kvscale.io_inferencepools.yaml"
RELEASE = "kvscale-rig"
NODES = {"rig.kvscale.io/node": "shared"}
"""Label and nodeSelector of a node that is large enough for every test."""

UNHEALTHY = re.compile(r"Traceback|\b403\b|[Ff]orbidden|\"level\":\"(error|critical)\"")
"""What the log of an operator must never show, whatever happens to the cluster."""

NO_RIGHT_MISSING = "because it is being terminated"
"""The server's 403 to whoever creates an object in a namespace that is on its way out."""

_numbers = count(1)


class Account:
    """The chart's service account, roles and bindings in a namespace; a context manager."""

    def __init__(self, cluster: Cluster, watched: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._watched = watched
        self.namespace = f"kvscale-rig-{next(_numbers)}"
        self.kubeconfig = Path()
        self.kinds: set[str] = set()
        self._documents = ""

    def __enter__(self) -> Self:
        self._cluster.apply(CRD.read_text())
        self._cluster.kubectl(
            "wait", "--for=condition=Established", "crd/inferencepools.kvscale.io", "--timeout=30s"
        )
        self._cluster.create_namespace(self.namespace)
        values = {"crds": {"install": False}, "watchNamespaces": list(self._watched)}
        rendered = subprocess.run(
            [helm(), "template", RELEASE, CHART, "--namespace", self.namespace, "--values", "-"],
            input=json.dumps(values), capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        documents = [one for one in yaml.safe_load_all(rendered) if one]
        objects = [one for one in documents if one["kind"] != "Deployment"]
        self.kinds = {one["kind"] for one in objects}
        self._documents = yaml.safe_dump_all(objects)
        self._cluster.kubectl("apply", "--server-side", "-f", "-", input=self._documents)
        self.kubeconfig = self._cluster.service_account_kubeconfig(self.namespace, RELEASE)
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.kubectl("delete", "--ignore-not-found", "-f", "-", input=self._documents)
        self._cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")


class Operator:
    """`kvscale operator` as a child process; a context manager that wants a clean log at the end.

    Attributes:
        child: the process of the last start.
        excused: messages of the log that a test brought about.
    """

    def __init__(self, account: Account, folder: Path, *arguments: str) -> None:
        self.account = account
        self._arguments = arguments
        self.port = free_ports(1)[0]
        self.log = folder / "operator.log"
        self.excused: list[str] = []
        self.child = Child("operator", self._command(account.kubeconfig), self.log)

    def _command(self, kubeconfig: Path) -> list[str]:
        given = {argument.partition("=")[0] for argument in self._arguments}
        usual = [
            "--interval=1",
            f"--liveness=http://127.0.0.1:{self.port}/healthz",
            f"--lease-namespace={self.account.namespace}",
            f"--kubeconfig={kubeconfig}",
        ]
        kept = [one for one in usual if one.partition("=")[0] not in given]
        return [sys.executable, "-m", "kvscale", "operator", *kept, *self._arguments]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.child.stop(graceful=True)
        complaints = self.complaints()
        if kind is None:
            assert complaints == [], "\n".join(complaints[:5])

    def start(self) -> None:
        """Start it, and wait for a round that went through."""
        self.child.start()
        eventually(self.round_done, "a finished round", give_up=self._why_dead)

    def kill(self) -> None:
        """SIGKILL: no lease is given up, no write finished."""
        self.child.stop()

    def beside(self, folder: Path) -> Operator:
        """Another one with the same account, lease and arguments; not started."""
        return Operator(self.account, folder, *self._arguments)

    def probe(self) -> dict[str, Any]:
        """What the liveness endpoint says of the loop: {} while it does not answer 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=2) as page:
                answer: dict[str, Any] = json.load(page)["loop"]
        except (urllib.error.URLError, OSError):
            return {}
        return answer

    def round_done(self) -> bool:
        """Whether the last round went through and is not long ago."""
        answer = self.probe()
        return answer.get("problem") == "" and answer["secondsSinceRound"] < 3

    def complaints(self) -> list[str]:
        """Lines of the log that a healthy operator does not write."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        bad = [line for line in lines if UNHEALTHY.search(line)]
        excused = [NO_RIGHT_MISSING, *self.excused]
        return [line for line in bad if not any(text in line for text in excused)]

    def _why_dead(self) -> str | None:
        return None if self.child.running else self.child.report()


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


def kvscale(*arguments: str) -> str:
    """Run another command of kvscale and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "kvscale", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def engines() -> Iterator[EnginePages]:
    """What the engines of all tests answer; pods have no addresses that may be called."""
    with EnginePages() as pages:
        yield pages


@pytest.fixture(scope="session")
def shared_node(control_plane: Cluster) -> Iterator[None]:
    """A node for every pod of `Target.deploy`."""
    control_plane.add_gpu_node("rig-node", labels=NODES, gpus=64)
    yield
    control_plane.kubectl("delete", "node", "rig-node")


@pytest.fixture(scope="module")
def operator(
    control_plane: Cluster,
    engines: EnginePages,
    shared_node: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operator]:
    """The operator of a cluster-wide install, for the tests of one module."""
    folder = tmp_path_factory.mktemp("operator")
    with (
        Account(control_plane) as account,
        Operator(account, folder, f"--scrape-url-template={engines.template}") as running,
    ):
        yield running


@pytest.fixture
def target(control_plane: Cluster, namespace: str, shared_node: None) -> Target:
    """The names of a Deployment and a pool, in the test's namespace."""
    return Target(control_plane, namespace)
