"""A plan: ceiling, headroom and replicas of a pool from its spec alone."""

from collections.abc import Mapping
from typing import Any

from kvscale.api.parse import parse_pool
from kvscale.app.plan import Plan, plan
from kvscale.app.plan_document import KEYS, plan_document, whole_trace
from kvscale.app.plan_view import plan_page
from kvscale.app.tables import WIDTH
from kvscale.core.planning.floor import Floor
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec
from kvscale.core.values import Unknown

TRAFFIC = {
    "requestsPerMinute": {"mean": 60, "peak": 180},
    "promptTokens": {"mean": 900, "p50": 600, "p90": 2100, "p95": 3300, "p99": 5800},
    "outputTokens": {"mean": 220, "p50": 160, "p90": 480, "p95": 640, "p99": 1400},
}


def pool(**changes: Any) -> PoolSpec:
    engine = {
        "version": "0.32",
        "maxModelLen": 8192,
        "maxNumSeqs": 64,
        "maxNumBatchedTokens": 2048,
        "kvCacheMemoryBytes": 4 << 30,
        **changes.pop("engine", {}),
    }
    target = {
        "ref": {"name": "llama"},
        "engine": engine,
        "devices": {"product": "NVIDIA-L4"},
    }
    spec = {
        "model": {"preset": "meta-llama/Llama-3.1-8B-Instruct"},
        "targets": [target],
        "traffic": TRAFFIC,
        **changes,
    }
    parsed = parse_pool({key: value for key, value in spec.items() if value is not None})
    assert isinstance(parsed, PoolSpec), parsed
    return parsed


def planned(spec: PoolSpec, **given: Any) -> Plan:
    result = plan("llama", spec, **given)
    assert isinstance(result, Plan), result
    return result


def test_a_plan_has_ceilings_headroom_and_both_floors() -> None:
    result = planned(pool())
    assert [one.name for one in result.ceilings] == ["mean", "p50", "p90", "p95", "p99", "max"]
    assert result.capacity.kv_blocks.expected == 2048
    assert result.ceilings[-1].per_replica.expected == 2047 // 512
    assert result.headroom is not None
    assert result.headroom.low > 0
    assert isinstance(result.floor, Floor)
    assert result.floor.at_mean is not None
    assert result.floor.at_peak is not None
    assert 1 <= result.floor.at_mean < result.floor.at_peak
    assert result.warnings == ()


def test_engines_of_a_replica_multiply_its_ceiling_and_divide_its_floor() -> None:
    one, four = planned(pool()), planned(pool(engine={"dataParallel": 4}))
    assert four.devices_per_replica == 4
    assert four.ceilings[0].per_engine == one.ceilings[0].per_engine
    assert four.ceilings[0].per_replica.low == 4 * one.ceilings[0].per_replica.low
    assert isinstance(one.floor, Floor)
    assert isinstance(four.floor, Floor)
    assert (four.floor.at_peak or 0) == -(-(one.floor.at_peak or 0) // 4)


def test_without_traffic_the_ceiling_stands_alone_and_the_missing_field_is_named() -> None:
    result = planned(pool(traffic=None))
    assert [one.name for one in result.ceilings] == ["max"]
    assert result.headroom is None
    assert isinstance(result.floor, Unknown)
    assert "spec.traffic" in result.floor.message
    assert "spec.traffic" in "\n".join(plan_page(result))


def test_a_pool_whose_limits_are_below_its_peak_is_warned() -> None:
    result = planned(pool(scaling={"maxReplicas": 5, "maxDevices": 4}))
    assert isinstance(result.floor, Floor)
    assert any(
        f"{result.floor.at_peak} replicas, above scaling.maxReplicas 5" in line
        for line in result.warnings
    )
    assert any("above scaling.maxDevices 4" in line for line in result.warnings)


def test_traffic_that_contradicts_the_engine_is_warned_and_still_planned() -> None:
    result = planned(pool(engine={"maxModelLen": 4096}))
    assert any("spec.traffic.promptTokens.p99 is 5800" in line for line in result.warnings)
    assert isinstance(result.floor, Floor)


def test_a_given_gpu_wins_over_the_spec() -> None:
    result = planned(pool(), gpu="H100")
    assert result.device.product == "NVIDIA-H100-80GB-HBM3"


def test_what_cannot_be_resolved_is_refused_with_its_field() -> None:
    result = plan("llama", pool(model={"preset": "nobody/knows-this"}))
    assert isinstance(result, Refusal)
    assert result.reason == "ModelUnknown"
    assert result.field == "spec.model.preset"


def test_a_model_that_does_not_fit_is_refused_by_the_capacity_model() -> None:
    result = plan("llama", pool(model={"preset": "meta-llama/Llama-3.1-70B-Instruct"}))
    assert isinstance(result, Refusal)
    assert result.reason == "ModelDoesNotFit"


def test_a_config_map_names_the_model() -> None:
    spec = pool(model={"configMapRef": {"name": "config"}})
    missing = plan("llama", spec, config_map=Unknown("ConfigMapNotFound", "no such ConfigMap"))
    assert isinstance(missing, Refusal)
    broken = plan("llama", spec, config_map={"config.json": "{"})
    assert isinstance(broken, Refusal)
    assert broken.reason == "ConfigMapInvalid"


def test_the_document_has_every_key_in_every_case() -> None:
    for result in (
        planned(pool()),
        planned(pool(traffic=None)),
        plan("llama", pool(model={"preset": "nobody/knows-this"})),
    ):
        assert tuple(plan_document(result)) == KEYS


def test_the_document_says_the_numbers_of_the_plan() -> None:
    result = planned(pool())
    document = plan_document(result)
    floor: Mapping[str, Any] = document["floor"]
    assert isinstance(result.floor, Floor)
    assert (floor["atMean"], floor["atPeak"]) == (result.floor.at_mean, result.floor.at_peak)
    assert document["floorUnknown"] is None
    assert document["refusal"] is None
    assert [one["length"] for one in document["ceilings"]][-1] == "max"
    assert [step["name"] for step in document["trace"]] == [s.name for s in whole_trace(result)]


def test_the_page_fits_the_terminal_and_prints_each_step() -> None:
    result = planned(pool(scaling={"maxReplicas": 5}))
    page = plan_page(result)
    assert max(len(line) for line in page) <= WIDTH
    text = "\n".join(page)
    assert text.isascii()
    for step in whole_trace(result):
        assert step.name in text
    assert "Warnings" in page
