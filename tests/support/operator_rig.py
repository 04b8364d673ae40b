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
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from localcluster import Cluster, eventually, helm
from localcluster.processes import Child, free_ports
from support.engine_pages import EnginePages
from support.scaled_target import NODES, Target

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kvscale"
CRD = ROOT / "crds" / "kvscale.io_inferencepools.yaml"
RELEASE = "kvscale-rig"
UNHEALTHY = re.compile(r"Traceback|\b403\b|[Ff]orbidden|\"level\":\"(error|critical)\"")
"""What the log of an operator must never show, whatever happens to the cluster."""

NO_RIGHT_MISSING = "because it is being terminated"
"""The server's 403 to whoever creates an object in a namespace that is on its way out."""

CRD_IS_NEW = "storage is (re)initializing"
"""The server's 429 to whoever is quick after a CRD was created; kopf tries again."""

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
        excused = [NO_RIGHT_MISSING, CRD_IS_NEW, *self.excused]
        return [line for line in bad if not any(text in line for text in excused)]

    def _why_dead(self) -> str | None:
        return None if self.child.running else self.child.report()


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
