"""From a decision to the status: what a reader sees, and that the schema holds all of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kvscale.api.crd import custom_resource_definition
from kvscale.api.parse import parse_pool
from kvscale.api.status import build_status
from kvscale.api.status_decision import MAX_TRACE_STEPS, two_digits
from kvscale.api.status_size import LARGEST_BYTES
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
from kvscale.core.inventory import PodNeeds
from kvscale.core.refusal import Refusal
from kvscale.core.snapshot import PodState, PoolSnapshot, TargetState
from kvscale.core.spec import Freeze, Mode, PoolKey, PoolSpec
from kvscale.core.trace import Step
from kvscale.core.values import Band, Known, Unknown

NOW = 1_795_975_200.0  # 2026-11-29T18:00:00Z
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
STATUS_SCHEMA = SCHEMA["properties"]["status"]


def outside(value: Any, schema: dict[str, Any], path: str = "status") -> list[str]:
    """Where a value is not what the schema allows; what is not in it would be pruned."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if type(value) is not kinds[schema["type"]]:
        return [f"{path} is {type(value).__name__}"]
    if isinstance(value, dict):
        return outside_object(value, schema, path)
    if isinstance(value, list):
        found = [f"{path} is too long"] if len(value) > schema["maxItems"] else []
        return found + [text for item in value for text in outside(item, schema["items"], path)]
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return [f"{path} is too long"]
    return [] if value in schema.get("enum", (value,)) else [f"{path} is {value}"]


def outside_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
    missing = set(schema.get("required", ())) - value.keys()
    unknown = value.keys() - schema["properties"].keys()
    return [
        *(f"{path}.{name} is missing" for name in missing),
        *(f"{path}.{name} is not in the schema" for name in unknown),
        *(
            text
            for name in value.keys() - unknown
            for text in outside(value[name], schema["properties"][name], f"{path}.{name}")
        ),
    ]


def spec_of(**more: Any) -> PoolSpec:
    spec = parse_pool({"targets": [{"ref": {"name": "llama"}}], **more})
    assert isinstance(spec, PoolSpec)
    return spec


SPEC = spec_of(
    traffic={
        "requestsPerMinute": {"mean": 60, "peak": 180},
        "promptTokens": {"mean": 900, "p95": 3300},
        "outputTokens": {"mean": 220, "p95": 640},
    },
    scaling={"maxReplicas": 12},
)
CAPACITY = EngineCapacity(
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
DECISION = Decision(
    key=PoolKey("ns", "llama"),
    id="0123456789ab",
    counts=Counts(current=2, ready=2, starting=1, wanted=4, placeable=3, desired=3),
    write=3,
    binding_bound="KV",
    reason="NotPlaceable",
    message="3 replicas: no node for the fourth",
    bounds=(Bound(BoundName.KV, 4, 3512, "5,958 / (2,001 x 85%)"),),
    demand=Demand(3456, 2512, 120, 41, 7, 0, 864, NOW - 3, ("llama-x",)),
    capacity=CAPACITY,
    floor_at_mean=1,
    floor_at_peak=3,
    conditions=(Condition("Ready", Status.TRUE, "Decided", "decided and applied"),),
    trace=(
        Step("kvBlocks", 2002, "blocks", "M // bytesPerBlock", (("M", 4_200_000_000),), "vLLM"),
        Step("share", 0.8640001, "", "used / usable"),
    ),
)
STATE = PoolState(
    uid="uid",
    had_data=True,
    last_written=2,
    last_written_at=NOW - 60.5,
    scalings=(ScalingEvent(NOW - 60.5, 1, 2, "TooFewReplicas"),),
)


def pod(name: str, blocks: int | None, *, ready: bool = True, revision: str = "r2") -> PodState:
    sample = EngineSample("0", 0.5, 1, 0, kv_blocks=blocks)
    return PodState(
        name, name, "node", ready, 0.0, template_hash=revision, metrics=Known((sample,), NOW)
    )


POOL = PoolSnapshot(
    key=PoolKey("ns", "llama"),
    uid="uid",
    generation=4,
    spec=SPEC,
    target=TargetState(
        "Deployment", "llama", "t", "7", 2, 2, 2, 2, progressing=False, needs=PodNeeds(), template_hash="r2"
    ),
    shape=Unknown("No"),
    engine=EngineConfig(version="0.32", max_model_len=8192),
    device=Device("NVIDIA-L4", 23_600_000_000, evidence="node label"),
    device_resource="nvidia.com/gpu",
    devices_per_pod=1,
    pods=(pod("a", 2000), pod("b", 1990), pod("old", 900, revision="r1")),
    contradictions=("spec says 8192, --max-model-len says 4096",),
    hold_until=NOW + 3600,
    freeze=Freeze.SCALE_DOWN,
)  # fmt: skip


def status_of(
    decision: Decision = DECISION,
    pool: PoolSnapshot = POOL,
    state: PoolState = STATE,
    operator_mode: Mode | None = None,
) -> dict[str, Any]:
    return build_status(
        decision,
        pool=pool,
        memory=state,
        operator_mode=operator_mode,
        previous={},
        now=NOW,
    )


def bytes_of(status: dict[str, Any]) -> int:
    return len(json.dumps(status, ensure_ascii=False, separators=(",", ":")).encode())


NOTHING = Decision(
    key=PoolKey("ns", "llama"),
    id="0",
    counts=None,
    write=None,
    binding_bound="",
    reason="InvalidSpec",
    message="spec.targets: is missing: set it",
)
INVALID = replace(
    POOL,
    spec=Unknown("InvalidSpec", "spec.targets: is missing: set it"),
    target=Unknown("No"),
    engine=Unknown("No"),
    device=Unknown("No"),
    pods=(),
    contradictions=(),
)


@pytest.mark.parametrize(
    ("decision", "pool", "state"),
    [
        (DECISION, POOL, STATE),
        (NOTHING, INVALID, PoolState()),
        (NOTHING, POOL, PoolState()),
        (replace(DECISION, capacity=Refusal("ModelDoesNotFit", "devices", "no")), POOL, STATE),
        (replace(DECISION, demand=Unknown("NoSamples"), capacity=Unknown("No")), POOL, STATE),
        (replace(DECISION, floor_at_mean=None, floor_at_peak=None, binding_bound=""), POOL, STATE),
    ],
    ids=["full", "invalid", "no target", "refused", "unknown", "undeclared"],
)
def test_every_field_is_in_the_schema(
    decision: Decision, pool: PoolSnapshot, state: PoolState
) -> None:
    assert outside(status_of(decision, pool, state), STATUS_SCHEMA) == []


def test_the_schema_check_finds_what_would_be_pruned() -> None:
    bad = {"replicas": {"current": 1.5}, "phase": "x", "mode": "Fast"}
    found = sorted(outside(bad, STATUS_SCHEMA))
    assert found[:2] == ["status.mode is Fast", "status.phase is not in the schema"]
    assert "status.replicas.current is float" in found
    assert "status.replicas.desired is missing" in found


def test_texts_and_lists_beyond_the_limits_are_cut_not_refused() -> None:
    flood = replace(
        DECISION,
        message="m" * 10_000,
        bounds=DECISION.bounds * 30,
        trace=(Step("n" * 300, "v" * 300, "u", "f" * 3000, (("i", "x" * 3000),)),) * 500,
        demand=replace(DECISION.demand, missing_pods=tuple(f"p{n}" for n in range(40))),
        conditions=(Condition("Ready", Status.TRUE, "Decided", "c" * 50_000),),
        capacity=replace(CAPACITY, assumptions=("a" * 2000,) * 40),
    )
    events = tuple(ScalingEvent(NOW + n, n, n + 1) for n in range(50))
    state = replace(STATE, scalings=events, foreign=tuple(map(float, range(50))))
    status = status_of(flood, replace(POOL, contradictions=("c" * 5000,) * 40), state)
    assert outside(status, STATUS_SCHEMA) == []
    assert status["decision"]["message"].endswith("m…")
    assert status["scalings"][-1]["after"] == 50
    assert bytes_of(status) <= LARGEST_BYTES


def test_a_status_stays_small_and_loses_its_explanations_first() -> None:
    steps = tuple(Step(f"n{n}", n, "bytes", "f" * 900, (("i", "x" * 900),)) for n in range(500))
    status = status_of(replace(DECISION, trace=steps))
    assert bytes_of(status) <= LARGEST_BYTES
    assert len(status["decision"]["trace"]) == MAX_TRACE_STEPS
    plain = status_of()
    assert bytes_of(plain) < LARGEST_BYTES / 5
    for kept in ("ceiling", "replicas", "memory", "scalings", "conditions", "floor"):
        assert status[kept] == plain[kept]


def test_a_hundred_missing_pods_are_no_flood() -> None:
    names = tuple(f"llama-6f7d9c5b8-{n:05d}" for n in range(100))
    status = status_of(replace(DECISION, demand=replace(DECISION.demand, missing_pods=names)))
    assert status["demand"]["missingPods"] == list(names[:16])


def test_an_absurd_number_is_the_largest_there_is() -> None:
    demand = replace(DECISION.demand, used_blocks=10**30, waiting=-(10**30))
    pool = replace(POOL, pods=(pod("a", 10**40),))
    status = status_of(replace(DECISION, demand=demand), pool)
    assert outside(status, STATUS_SCHEMA) == []
    assert status["demand"]["usedBlocks"] == 2**63 - 1
    assert status["demand"]["waitingRequests"] == -(2**63)
    assert status["reported"]["fewestBlocks"] == 2**63 - 1


def test_the_counts_stand_apart() -> None:
    status = status_of()
    assert status["replicas"] == {
        "current": 2, "ready": 2, "starting": 1, "wanted": 4, "placeable": 3, "desired": 3
    }  # fmt: skip
    assert status["targets"] == [
        {"name": "default", "wanted": 4, "placeable": 3, "written": 2, "ready": 2}
    ]


def test_the_decision_carries_its_grounds() -> None:
    decision = status_of()["decision"]
    assert decision["desired"] == 3
    assert decision["bindingBound"] == "KV"
    assert decision["bounds"][0]["exactMilli"] == 3512
    assert decision["trace"] == [
        {"name": "kvBlocks", "value": "2002", "unit": "blocks", "formula": "M // bytesPerBlock",
         "inputs": "M=4200000000", "source": "vLLM"},
        {"name": "share", "value": "0.864", "formula": "used / usable"},
    ]  # fmt: skip


def test_the_ceiling_is_stated_at_the_declared_lengths_and_the_longest() -> None:
    ceiling = status_of()["ceiling"]
    assert ceiling["usableBlocks"] == {"low": 1906, "expected": 2001, "high": 2097}
    lengths = {item["length"]: item for item in ceiling["sequences"]}
    assert list(lengths) == ["mean", "p50", "p90", "p95", "p99", "max"]
    assert lengths["max"] == {
        "length": "max",
        "tokens": 8192,
        "sequences": {"low": 3, "expected": 3, "high": 4},  # 512 blocks each
    }
    assert lengths["mean"]["tokens"] == pytest.approx(900 + 220, rel=0.02)  # capped at 8192
    tokens = [item["tokens"] for item in ceiling["sequences"][1:]]
    assert tokens == sorted(tokens)


def test_without_declared_traffic_the_ceiling_is_stated_at_the_longest_alone() -> None:
    status = status_of(pool=replace(POOL, spec=spec_of()))
    assert [item["length"] for item in status["ceiling"]["sequences"]] == ["max"]


def test_reports_of_an_older_revision_do_not_count() -> None:
    assert status_of()["reported"] == {
        "engines": 2, "fewestBlocks": 1990, "mostBlocks": 2000, "ratioMilli": 994
    }  # fmt: skip


def test_reports_stand_alone_where_nothing_could_be_computed() -> None:
    refused = replace(DECISION, capacity=Refusal("UnsupportedLayerKind", "layer_types", "no"))
    status = status_of(refused)
    assert "ceiling" not in status
    assert "ratioMilli" not in status["reported"]


def test_pods_that_are_not_ready_or_do_not_report_are_no_report() -> None:
    pods = (pod("a", 2000, ready=False), pod("b", None))
    assert "reported" not in status_of(pool=replace(POOL, pods=pods))


def test_missing_data_is_absent_never_0() -> None:
    status = status_of(NOTHING, INVALID, PoolState())
    for name in ("replicas", "targets", "ceiling", "reported", "demand", "floor", "effective"):
        assert not status.get(name), name
    assert "desired" not in status["decision"]
    assert "bindingBound" not in status["decision"]


def test_running_numbers_are_rounded() -> None:
    demand = status_of()["demand"]
    assert demand["usedBlocks"] == 3500
    assert demand["runningRequests"] == 41
    assert demand["occupancyPercent"] == 86
    assert demand["sampledTime"] == "2026-11-29T17:59:57Z"
    assert demand["missingPods"] == ["llama-x"]


@pytest.mark.parametrize(
    ("number", "rounded"), [(0, 0), (7, 7), (99, 99), (104, 100), (106, 110), (99_499, 99_000), (99_900, 100_000), (-1234, -1200)]
)  # fmt: skip
def test_two_digits(number: int, rounded: int) -> None:
    assert two_digits(number) == rounded


def test_what_is_in_effect_is_shown_with_the_defaults() -> None:
    effective = status_of()["effective"]
    assert effective["maxReplicas"] == 12
    assert effective["targetOccupancyPercent"] == 85
    assert effective["behavior"]["scaleDown"] == {
        "stabilizationWindowSeconds": 300,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
        "tolerance": "100m",
    }
    assert effective["device"]["memoryBytes"] == 23_600_000_000
    assert effective["engine"]["version"] == "0.32"
    assert effective["contradictions"] == ["spec says 8192, --max-model-len says 4096"]


@pytest.mark.parametrize(
    ("pool_mode", "operator_mode", "mode"),
    [
        ("Auto", None, "Auto"),
        (None, None, "Auto"),
        (None, Mode.RECOMMEND, "Recommend"),
        ("Paused", Mode.RECOMMEND, "Paused"),
        ("Auto", Mode.PAUSED, "Paused"),
    ],
)
def test_the_mode_in_effect_is_the_most_cautious(
    pool_mode: str | None, operator_mode: Mode | None, mode: str
) -> None:
    pool = replace(POOL, spec=spec_of(**({"mode": pool_mode} if pool_mode else {})))
    assert status_of(pool=pool, operator_mode=operator_mode)["mode"] == mode


def test_holds_are_shown() -> None:
    status = status_of()
    assert status["holdUntil"] == "2026-11-29T19:00:00Z"
    assert status["freeze"] == "ScaleDown"
    assert "freeze" not in status_of(pool=replace(POOL, freeze=Freeze.NONE))
