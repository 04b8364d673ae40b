"""The chart on a real API server: it installs, grants what it says, and leaves pools behind."""

import subprocess
from itertools import count
from pathlib import Path

import pytest

from localcluster import KubectlError, helm

CHART = Path(__file__).parents[2] / "charts" / "kvscale"
POOL = """
apiVersion: kvscale.io/v1alpha1
kind: InferencePool
metadata: {name: llama}
spec: {targets: [{ref: {name: llama}}]}
"""

_numbers = count(1)


@pytest.fixture
def release(control_plane, namespace):
    """A function that installs the chart in the test's namespace and returns the release's name."""
    binary, installed = helm(), []

    def run(*arguments):
        done = subprocess.run(
            [binary, *arguments, "--kubeconfig", control_plane.kubeconfig, "--namespace", namespace],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(*settings):
        name = f"kvscale-{next(_numbers)}"
        more = [word for setting in settings for word in ("--set", setting)]
        # Another test may have left the CRD behind, as it is kept; it is nobody's property.
        run("install", name, CHART, *more, "--take-ownership")
        installed.append(name)
        return name

    install.run = run
    yield install
    for name in installed:
        run("uninstall", name, "--ignore-not-found")


def can(control_plane, account, *question):
    """Whether the API server grants it; kubectl ends with 1 where it does not."""
    try:
        return control_plane.kubectl("auth", "can-i", *question, "--as", account).strip() == "yes"
    except KubectlError:
        return False


def test_an_install_is_accepted_by_the_server_and_serves_pools(control_plane, namespace, release):
    name = release()
    deployment = control_plane.get("deployment", name, "-n", namespace)
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    control_plane.kubectl(
        "wait", "--for=condition=Established", "crd/inferencepools.kvscale.io", "--timeout=60s"
    )
    control_plane.apply(POOL, namespace=namespace)
    assert control_plane.get("kvp", "llama", "-n", namespace)["kind"] == "InferencePool"


def test_the_namespace_may_enforce_pod_security_restricted(control_plane, namespace, release):
    control_plane.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    name = release()
    control_plane.kubectl(
        "wait", "--for=jsonpath={.status.replicas}=1", f"deployment/{name}", "-n", namespace,
        "--timeout=60s",
    )  # fmt: skip


GRANTS = {
    # what: (in every namespace by a cluster-wide install, in its own by a namespaced one)
    ("list", "pods"): (True, True),
    ("watch", "inferencepools.kvscale.io"): (True, True),
    ("patch", "inferencepools.kvscale.io", "--subresource=status"): (True, True),
    ("update", "deployments.apps", "--subresource=scale"): (True, True),
    ("watch", "nodes"): (True, False),
    ("list", "customresourcedefinitions"): (True, False),
    ("create", "leases.coordination.k8s.io"): (False, False),
    ("patch", "deployments.apps"): (False, False),
    ("get", "secrets"): (False, False),
    ("list", "configmaps"): (False, False),
    ("update", "inferencepools.kvscale.io"): (False, False),
    ("delete", "pods"): (False, False),
}


def test_the_server_grants_what_the_table_says(control_plane, namespace, release):
    watched = control_plane.create_namespace(f"{namespace}-watched"[:60])
    wide, narrow = release(), release(f"watchNamespaces={{{watched}}}")
    account = f"system:serviceaccount:{namespace}:"
    found = {
        what: (
            can(control_plane, account + wide, *what, "--all-namespaces"),
            can(control_plane, account + narrow, *what, "--namespace", watched),
        )
        for what in GRANTS
    }
    beyond = {
        what for what in GRANTS if can(control_plane, account + narrow, *what, "--all-namespaces")
    }
    lease = ("update", "leases.coordination.k8s.io/kvscale", "--namespace", namespace)
    another = ("update", "leases.coordination.k8s.io/other", "--namespace", namespace)
    control_plane.kubectl("delete", "namespace", watched, "--wait=false")
    assert found == GRANTS
    assert beyond == set()
    assert can(control_plane, account + narrow, *lease)
    assert not can(control_plane, account + narrow, *another)


def test_an_uninstall_leaves_the_pools(control_plane, namespace, release):
    name = release()
    control_plane.apply(POOL, namespace=namespace)
    release.run("uninstall", name)
    assert control_plane.get("kvp", "llama", "-n", namespace)["metadata"]["name"] == "llama"
