"""The CRD on a real API server: every rule with a pool that it accepts and one that it refuses."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster import Cluster, KubectlError, eventually

ROOT = Path(__file__).parents[2]
POOLS = yaml.safe_load((ROOT / "tests/data/api/pools.yaml").read_text())
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
GATEWAY_POOL = {
    "apiVersion": "inference.networking.k8s.io/v1",
    "kind": "InferencePool",
    "metadata": {"name": "llama"},
    "spec": {
        "selector": {"matchLabels": {"app": "llama"}},
        "targetPorts": [{"number": 8000}],
        "extensionRef": {"name": "picker"},
    },
}


@pytest.fixture(scope="module")
def server(control_plane: Cluster) -> Cluster:
    """The control plane with both kinds named InferencePool, the other one first."""
    for path in (
        "tests/data/gateway_inferencepool_crd.yaml",
        "crds/kvscale.io_inferencepools.yaml",
    ):
        crd = ROOT / path
        control_plane.kubectl("apply", "--server-side", "--validate=strict", "-f", str(crd))
        name = yaml.safe_load(crd.read_text())["metadata"]["name"]
        control_plane.kubectl("wait", "--for=condition=Established", f"crd/{name}")
        eventually(
            partial(control_plane.kubectl, "get", name, "-A", "-o", "json"),
            f"{name} is served",
            retry_on=(KubectlError,),
        )
    return control_plane


def _pool(spec: dict[str, Any], name: str = "llama") -> str:
    return json.dumps(
        {
            "apiVersion": "kvscale.io/v1alpha1",
            "kind": "InferencePool",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def _dry_run(server: Cluster, text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        server.kubectl(
            "create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", input=text
        )
    )
    return answer


@pytest.mark.parametrize("row", POOLS["accepted"], ids=lambda row: row["name"])
def test_the_server_accepts(server: Cluster, row: dict[str, Any]) -> None:
    _dry_run(server, _pool(row["spec"]))


@pytest.mark.parametrize("row", POOLS["refused"], ids=lambda row: row["name"])
def test_the_server_refuses_by_field_and_mend(server: Cluster, row: dict[str, Any]) -> None:
    with pytest.raises(KubectlError) as refused:
        _dry_run(server, _pool(row["spec"]))
    message = str(refused.value)
    assert f"{row['field']}: " in message
    assert row.get("server says", row["says"]) in message


def test_the_smallest_pool_is_stored_with_its_identity_and_no_tunable(
    server: Cluster,
) -> None:
    stored = _dry_run(server, _pool({"targets": [{"ref": {"name": "llama"}}]}))
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama"}
    assert stored["spec"] == {"targets": [{"name": "default", "ref": ref}]}


def test_a_misspelt_field_is_refused_by_strict_validation(server: Cluster) -> None:
    with pytest.raises(KubectlError, match=r"unknown field .*scaling.maxReplica"):
        _dry_run(server, _pool({"targets": [{"ref": {"name": "x"}}], "scaling": {"maxReplica": 3}}))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_passes_strict_validation(server: Cluster, path: Path) -> None:
    server.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(path))


def test_both_kinds_named_inferencepool_live_side_by_side(server: Cluster, namespace: str) -> None:
    server.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(GATEWAY_POOL))
    ours = _pool({"targets": [{"ref": {"name": "llama"}}]})
    server.kubectl("apply", "-n", namespace, "-f", "-", input=ours)
    by_short_name = server.get("kvp", "-n", namespace)["items"]
    assert [item["apiVersion"] for item in by_short_name] == ["kvscale.io/v1alpha1"]
    theirs = server.get("infpool", "-n", namespace)["items"]
    assert [item["apiVersion"] for item in theirs] == ["inference.networking.k8s.io/v1"]
    by_category = server.kubectl("get", "kvscale", "-n", namespace, "-o", "name")
    assert by_category.split() == ["inferencepool.kvscale.io/llama"]


def test_explain_names_unit_and_example(server: Cluster) -> None:
    def explain(field: str) -> str:
        text = server.kubectl(
            "explain", f"inferencepools.spec.{field}", "--api-version=kvscale.io/v1alpha1"
        )
        return " ".join(text.split())

    assert "in percent, e.g. 85" in explain("scaling.targetOccupancyPercent")
    assert "Memory of one device as the CUDA runtime reports it, e.g. 79Gi" in explain(
        "targets.devices.memory"
    )
    assert "ENUM: Deployment StatefulSet" in explain("targets.ref.kind")


def test_the_server_has_no_complaint_about_the_schema(server: Cluster) -> None:
    crd = server.get("crd", "inferencepools.kvscale.io")
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema", "False") == "False"
    assert conditions["NamesAccepted"] == "True"
