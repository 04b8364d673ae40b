"""The status on a real API server: nothing is pruned, nothing refused, and people can read it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.api.parse import parse_pool
from kvscale.api.status import InferencePoolStatus, build_status
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide.decision import (
    Bound,
    BoundName,
    Condition,
    Counts,
    Decision,
    Demand,
    Status,
)
from kvscale.core.decide.state import PoolState, ScalingEvent
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.sample import EngineSample
from kvscale.core.snapshot import PodState, PoolSnapshot
from kvscale.core.spec import Freeze, PoolKey
from kvscale.core.trace import Step
from kvscale.core.values import Band, Known, Unknown
from localcluster import Cluster, KubectlError, eventually

ROOT = Path(__file__).parents[2]
POOL = {
    "apiVersion": "kvscale.io/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "llama"},
}
SPEC = {"targets": [{"ref": {"name": "llama"}}]}


@pytest.fixture(scope="module")
def server(control_plane: Cluster) -> Cluster:
    """The control plane with our CRD served."""
    control_plane.apply((ROOT / "crds/kvscale.io_inferencepools.yaml").read_text())
    eventually(
        lambda: control_plane.kubectl("get", "kvp", "-A", "-o", "json"),
        "pools are served",
        retry_on=(KubectlError,),
    )
    return control_plane


def _full_status() -> dict[str, Any]:
    """A status with every part of it, as the operator writes it."""
    capacity = EngineCapacity(
        block_tokens=16,
        bytes_per_block=2_097_152,
        weight_bytes_per_device=16_060_522_496,
        kv_memory_bytes=Band(4_000_000_000, 4_200_000_000, 4_400_000_000),
        kv_blocks=Band(1907, 2002, 2098),
        reserved_blocks=1,
        kv_cache_size_tokens=Band(30_512, 32_032, 33_568),
        max_concurrency_milli=Band(3724, 3910, 4097),
        max_model_len=8192,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        devices=1,
        assumptions=("no prefix is shared",),
    )
    decision = Decision(
        key=PoolKey("ns", "llama"),
        id="0123456789ab",
        counts=Counts(current=2, ready=2, starting=1, wanted=4, placeable=3, desired=3),
        write=3,
        binding_bound="KV",
        reason="NotPlaceable",
        message="3 replicas: no node for the fourth",
        bounds=(Bound(BoundName.KV, 4, 3512, "5,958 / (2,001 x 85%)"),),
        demand=Demand(3456, 2512, 120, 41, 7, 0, 864, 1_795_975_197.0, ("llama-x",)),
        capacity=capacity,
        floor_at_mean=1,
        floor_at_peak=3,
        conditions=(Condition("Ready", Status.TRUE, "Decided", "decided and applied"),),
        trace=(Step("kvBlocks", 2002, "blocks", "M // b", (("M", 4_200_000_000),), "vLLM"),),
    )
    example = yaml.safe_load((ROOT / "examples/llama-3.1-8b.yaml").read_text())
    spec = parse_pool(example["spec"])
    sample = EngineSample("0", 0.5, 1, 0, kv_blocks=2000)
    pod = PodState("a", "a", "node", ready=True, created_at=0.0, metrics=Known((sample,), 1.0))
    pool = PoolSnapshot(
        key=decision.key,
        uid="uid",
        generation=1,
        spec=spec,
        target=Unknown("NotSeen"),
        shape=Unknown("NotResolved"),
        engine=EngineConfig(version="0.32"),
        device=Device("NVIDIA-L4", 23_600_000_000, evidence="node label"),
        device_resource="nvidia.com/gpu",
        devices_per_pod=1,
        pods=(pod,),
        contradictions=("a contradiction",),
        hold_until=1_795_978_800.0,
        freeze=Freeze.SCALE_DOWN,
    )
    memory = PoolState(
        had_data=True,
        last_written=2,
        last_written_at=1_795_975_140.0,
        foreign=(1_795_975_000.0,),
        foreign_manager="helm",
        scalings=(ScalingEvent(1_795_975_140.0, 1, 2, "TooFewReplicas"),),
    )
    return build_status(
        decision, pool=pool, memory=memory, operator_mode=None, previous={}, now=1_795_975_200.0
    )


@pytest.fixture
def decided(server: Cluster, namespace: str) -> str:
    """The namespace of a pool `llama` whose status has been applied as the operator does."""
    server.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(POOL | {"spec": SPEC}))
    _apply_status(server, namespace, _full_status())
    return namespace


def _apply_status(server: Cluster, namespace: str, status: dict[str, Any]) -> None:
    server.kubectl(
        "apply", "--server-side", "--subresource=status", "--field-manager=kvscale", "--validate=strict",
        "-n", namespace, "-f", "-", input=json.dumps(POOL | {"status": status}),
    )  # fmt: skip


def test_no_field_of_a_full_status_is_pruned_or_refused(server: Cluster, decided: str) -> None:
    status = _full_status()
    assert status.keys() == InferencePoolStatus.model_json_schema()["properties"].keys()
    stored = server.get("kvp", "llama", "-n", decided)["status"]
    assert stored == status


def test_an_equal_status_applied_again_changes_nothing(server: Cluster, decided: str) -> None:
    before = server.get("kvp", "llama", "-n", decided)["metadata"]["resourceVersion"]
    _apply_status(server, decided, _full_status())
    after = server.get("kvp", "llama", "-n", decided)["metadata"]["resourceVersion"]
    assert after == before


def test_a_field_that_is_no_longer_applied_disappears(server: Cluster, decided: str) -> None:
    status = _full_status()
    del status["demand"], status["targets"][0]["placeable"]
    _apply_status(server, decided, status)
    assert server.get("kvp", "llama", "-n", decided)["status"] == status


def test_get_shows_what_a_person_wants(server: Cluster, decided: str) -> None:
    def shown(*options: str) -> dict[str, str]:
        head, row = server.kubectl("get", "kvp", "-n", decided, *options).splitlines()
        starts = [match.start() for match in re.finditer(r"\S+", head)]
        ends = [*starts[1:], None]
        return {
            head[start:end].strip(): row[start:end].strip()
            for start, end in zip(starts, ends, strict=True)
        }

    narrow = shown()
    assert narrow.pop("AGE")
    assert narrow == {
        "NAME": "llama",
        "TARGET": "llama",
        "MODE": "Auto",
        "DESIRED": "3",
        "SERVING": "2",
        "OCCUPANCY%": "86",
        "BOUND": "KV",
        "READY": "True",
        "REASON": "NotPlaceable",
    }
    wide = shown("-o", "wide")
    assert (wide["WANTED"], wide["PLACEABLE"]) == ("4", "3")
    assert wide["MESSAGE"] == "3 replicas: no node for the fourth"


def test_a_person_can_wait_for_ready(server: Cluster, decided: str) -> None:
    server.kubectl("wait", "--for=condition=Ready", "kvp/llama", "-n", decided, "--timeout=5s")
