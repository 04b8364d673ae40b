"""What is asked of kind and Docker. Stand-ins answer here: Docker is not everywhere."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import KindCluster

CONFIG = {
    "clusters": [
        {"cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": "Q0E="}}
    ]
}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins on PATH that record their arguments; the API server is down while `parked` lies."""
    scripts = {
        "kind": "",
        "docker": f"case $4 in */manifests/*) touch {tmp_path}/parked;; *) rm {tmp_path}/parked;; esac",
        "kwok": "exec sleep 600",
        "kubectl": rf"case $* in *config\ view*) echo '{json.dumps(CONFIG)}';; "
        f"*readyz*) test ! -e {tmp_path}/parked;; *) echo token;; esac",
    }
    for name, script in scripts.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "calls"


@pytest.fixture
def cluster(calls: Path, tmp_path: Path) -> Iterator[KindCluster]:
    programs = {name: calls.parent / name for name in ("kubectl", "kwok")}
    with KindCluster(programs, tmp_path / "cluster", say=lambda _: None) as cluster:
        yield cluster


def test_a_cluster_of_its_own_is_created_and_deleted(calls: Path, tmp_path: Path) -> None:
    programs = {name: calls.parent / name for name in ("kubectl", "kwok")}
    with KindCluster(programs, tmp_path / "cluster", say=lambda _: None) as cluster:
        assert f"kind create cluster --name {cluster.name} --wait" in calls.read_text()
        assert cluster.url == "https://127.0.0.1:1"
    assert calls.read_text().endswith(f"kind delete cluster --name {cluster.name}\n")


def test_the_api_server_is_stopped_and_started_as_a_static_pod(
    cluster: KindCluster, calls: Path
) -> None:
    cluster.stop("kube-apiserver")
    cluster.start("kube-apiserver")
    moves = [line for line in calls.read_text().splitlines() if line.startswith("docker")]
    node = f"docker exec {cluster.name}-control-plane mv"
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    parked = "/etc/kubernetes/kube-apiserver.yaml"
    assert moves == [f"{node} {manifest} {parked}", f"{node} {parked} {manifest}"]


def test_a_service_accounts_kubeconfig_has_the_clusters_address_and_the_token(
    cluster: KindCluster,
) -> None:
    path = cluster.service_account_kubeconfig("ns", "operator")
    document = json.loads(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert document["users"][0]["user"] == {"token": "token"}
    assert path.stat().st_mode & 0o077 == 0
