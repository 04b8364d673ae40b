"""One real control plane for all tests of this folder, and a namespace for each."""

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest

from localcluster import Cluster, NoClusterError, open_cluster
from localcluster.binaries import choose, programs
from support.operator_rig import engines, operator, shared_node, target  # noqa: F401 - fixtures

POOL_LABEL = "localcluster.kvscale.io/pool"

_numbers = count(1)


def _say(line: str) -> None:
    print(f"\n{line}", end="", flush=True)  # noqa: T201 - a build of minutes must not be silent


def _needs_cluster(item: pytest.Item) -> bool:
    return "control_plane" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the control plane, so that `-m "not cluster"` runs the rest in seconds."""
    for item in items:
        if _needs_cluster(item):
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Build what is missing before the first test: a build outlasts a test's timeout."""
    if session.config.option.collectonly or not any(map(_needs_cluster, session.items)):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            programs(choose(), _say)
        except NoClusterError as error:
            session.config.stash[_no_cluster] = str(error)


_no_cluster = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with RBAC, scheduler, controllers and kwok; shared by the whole session."""
    reason = request.config.stash.get(_no_cluster, None)
    if reason:
        pytest.fail(reason, pytrace=False)
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace, named after the test; deleted afterwards (the server does so in its time)."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:48].strip("-")
    name = control_plane.create_namespace(f"{words}-{next(_numbers)}")
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


class NodePool:
    """Fake GPU nodes of one test; `selector` is a nodeSelector that finds them alone."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._numbers = count(1)

    @property
    def selector(self) -> dict[str, str]:
        return {POOL_LABEL: self._name}

    def add(self, *, labels: Mapping[str, str] | None = None, **settings: Any) -> str:
        """Add a node (settings: see localcluster.gpu_node) and return its name."""
        name = f"{self._name}-node-{next(self._numbers)}"
        self._cluster.add_gpu_node(name, labels=self.selector | dict(labels or {}), **settings)
        return name

    def remove_all(self) -> None:
        self._cluster.kubectl("delete", "nodes", "-l", f"{POOL_LABEL}={self._name}")


@pytest.fixture
def node_pool(control_plane: Cluster, namespace: str) -> Iterator[NodePool]:
    """Nodes for this test alone, so that no other test's pods take their GPUs."""
    pool = NodePool(control_plane, namespace)
    yield pool
    # pods first: without its node, a pod that is being deleted has no kubelet to end it
    control_plane.kubectl("delete", "deployments,statefulsets,replicasets,pods", "--all",
                          "-n", namespace, "--force", "--grace-period=0")  # fmt: skip
    pool.remove_all()
