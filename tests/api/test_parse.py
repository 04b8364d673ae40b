"""parse_pool: what is accepted, what is refused and how, and what becomes of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.api.inferencepool import InferencePoolSpec
from kvscale.api.parse import FREEZE, HOLD_UNTIL, parse_annotations, parse_pool
from kvscale.core.engines.config import EngineKind
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.scaling import (
    SCALE_DOWN,
    SCALE_UP,
    PolicySelect,
    PolicyType,
    Scaling,
    ScalingPolicy,
)
from kvscale.core.spec import (
    ConfigMapRef,
    Freeze,
    Mode,
    Planning,
    PlanningMode,
    PoolSpec,
    TargetSpec,
)
from kvscale.core.traffic.declared import LengthPercentiles, TrafficSource
from kvscale.core.values import Unknown

ROOT = Path(__file__).parents[2]
POOLS = yaml.safe_load((ROOT / "tests/data/api/pools.yaml").read_text())


def with_target(**more: Any) -> dict[str, Any]:
    return {"targets": [{"ref": {"name": "llama"}}], **more}


def parsed(spec: dict[str, Any]) -> PoolSpec:
    result = parse_pool(spec)
    assert isinstance(result, PoolSpec), result
    return result


def refusal(spec: Any) -> str:
    result = parse_pool(spec)
    assert isinstance(result, Unknown)
    assert result.reason == "InvalidSpec"
    return result.message


@pytest.mark.parametrize("row", POOLS["accepted"], ids=lambda row: row["name"])
def test_a_valid_pool_is_accepted(row: dict[str, Any]) -> None:
    parsed(row["spec"])


@pytest.mark.parametrize("row", POOLS["refused"], ids=lambda row: row["name"])
def test_an_invalid_pool_is_refused_by_field_and_mend(row: dict[str, Any]) -> None:
    message = refusal(row["spec"])
    assert message.startswith(f"{row['field']}: "), message
    assert row["says"] in message


def test_the_smallest_pool_takes_every_default_of_the_core() -> None:
    target = TargetSpec(ref_kind="Deployment", ref_name="llama")
    assert parsed({"targets": [{"ref": {"name": "llama"}}]}) == PoolSpec(target)


def test_the_full_example_arrives_in_every_field() -> None:
    pool = yaml.safe_load((ROOT / "examples/llama-3.1-8b.yaml").read_text())
    spec = parsed(pool["spec"])
    assert spec.mode is Mode.AUTO
    assert spec.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert spec.target.name == "l4"
    assert spec.target.container_name == "vllm"
    assert spec.target.engine.kind is EngineKind.VLLM
    assert spec.target.engine.version == "0.32"
    assert spec.target.engine.memory_utilization_milli == 920
    assert spec.target.engine.max_num_batched_tokens == 2048
    assert spec.target.engine.block_size == 16
    assert spec.target.devices.product == "NVIDIA-L4"
    assert spec.target.devices.memory_bytes is None
    assert spec.metrics.port == 8000
    assert spec.metrics.served_model_name == "llama"
    assert spec.traffic is not None
    assert (spec.traffic.mean_per_minute, spec.traffic.peak_per_minute) == (60, 180)
    assert spec.traffic.prompt_tokens == LengthPercentiles(900, 600, 2100, 3300, 5800)
    assert spec.scaling.max_devices == 12
    assert spec.scaling.scale_up.policies == (
        ScalingPolicy(PolicyType.PERCENT, 100, 60),
        ScalingPolicy(PolicyType.PODS, 2, 60),
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_is_a_valid_pool(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "InferencePool":
            parsed(document["spec"])


def test_planning_arrives_in_every_field() -> None:
    spec = parsed(
        with_target(
            planning={"percentile": 99, "mode": "OverflowProbability", "overflowPerMillion": 20}
        )
    )
    assert spec.planning == Planning(PlanningMode.OVERFLOW_PROBABILITY, 99, 20)
    assert spec.planning.quantile == pytest.approx(0.99998)
    # The room that the target occupancy keeps is what this mode computes.
    assert spec.occupancy_percent == 100
    assert parsed(with_target()).planning == Planning()
    assert parsed(with_target()).occupancy_percent == 85


def test_a_config_map_takes_the_default_key() -> None:
    spec = parsed(with_target(model={"configMapRef": {"name": "cm"}}))
    assert spec.model == ConfigMapRef("cm", "config.json", "")


def test_a_shape_by_hand_counts_heads_as_hugging_face_does() -> None:
    groups = [{"kind": "FullAttention", "layers": 32, "kvHeads": 8, "headDim": 128}]
    shape = {"hiddenSize": 4096, "vocabularySize": 128_256, "parametersMillions": 8030}
    spec = parsed(
        with_target(model={"shape": {**shape, "weightDtype": "bf16", "layerGroups": groups}})
    )
    assert spec.model == ModelShape(
        name="spec.model.shape",
        architecture="",
        hidden_size=4096,
        vocabulary_size=128_256,
        attention_heads=32,
        layer_groups=(LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),),
        weight_groups=(WeightGroup("all", 8_030_000_000, 16_000),),
    )


def test_latents_become_one_head_without_values() -> None:
    groups = [{"kind": "MLA", "layers": 61, "kvLoraRank": 512, "qkRopeHeadDim": 64}]
    shape = {"hiddenSize": 7168, "vocabularySize": 129_280, "parametersMillions": 671_000}
    spec = parsed(
        with_target(
            model={
                "shape": {
                    **shape,
                    "weightDtype": "fp8",
                    "attentionHeads": 128,
                    "layerGroups": groups,
                }
            }
        )
    )
    assert isinstance(spec.model, ModelShape)
    assert spec.model.layer_groups == (LayerGroup(LayerKind.MLA, 61, 1, 576, 0),)
    assert spec.model.attention_heads == 128
    assert spec.model.weight_groups[0].bits_per_parameter_milli == 8000


def test_device_memory_is_read_in_bytes_rounded_up() -> None:
    spec = parsed({"targets": [{"ref": {"name": "x"}, "devices": {"memory": "79.2Gi"}}]})
    assert spec.target.devices.memory_bytes == 85_040_352_461  # 85_040_352_460.8


def test_one_stated_field_of_behavior_leaves_the_others_at_their_defaults() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}, "scaleUp": {"tolerance": "50m"}}
    scaling = parsed(with_target(scaling={"behavior": behavior})).scaling
    assert scaling.scale_down.stabilization_window_seconds == 0
    assert scaling.scale_down.policies == SCALE_DOWN.policies
    assert scaling.scale_up.tolerance_milli == 50
    assert scaling.scale_up.policies == SCALE_UP.policies
    assert scaling.scale_up.select_policy is PolicySelect.MAX


def test_zero_of_a_tunable_is_not_taken_for_absent() -> None:
    assert parsed(with_target(scaling={"maxPendingReplicas": 0})).scaling.max_pending == 0


def test_traffic_without_source_is_the_prior_of_observed_data() -> None:
    traffic = parsed(with_target(traffic={"requestsPerMinute": {"mean": 9}})).traffic
    assert traffic is not None
    assert traffic.source is TrafficSource.OBSERVED


def test_a_field_of_a_newer_crd_is_ignored() -> None:
    assert parsed(with_target(schedules=[1])) == parsed(with_target())


def test_a_field_by_its_python_name_is_not_the_api_field() -> None:
    assert parsed(with_target(scaling={"max_replicas": 3})).scaling == Scaling()


@pytest.mark.parametrize("spec", [None, [], "targets", {"targets": None}, {"targets": {"a": 1}}])
def test_a_spec_of_the_wrong_type_is_refused_not_raised(spec: Any) -> None:
    assert refusal(spec).startswith("spec")


def test_several_errors_are_all_named_and_a_flood_is_counted() -> None:
    engine = dict.fromkeys(
        ("tensorParallel", "pipelineParallel", "dataParallel", "maxModelLen", "maxNumSeqs"), 0
    )
    message = refusal(
        {"targets": [{"ref": {"name": "x"}, "engine": engine}], "mode": "On", "planning": 3}
    )
    assert message.count("; ") == 5
    assert message.endswith("and 2 more")
    assert "spec.targets[0].engine.tensorParallel: 0 is too small: use 1 or more" in message


def test_a_bad_item_does_not_also_call_its_list_short() -> None:
    assert refusal({"targets": [{"ref": {}}]}) == "spec.targets[0].ref.name: is missing: set it"


def test_a_long_value_is_cut_in_the_message() -> None:
    message = refusal(with_target(mode="x" * 500))
    assert len(message) < 200


def test_models_are_frozen() -> None:
    spec = InferencePoolSpec.model_validate(with_target())
    with pytest.raises(ValueError, match="frozen"):
        spec.mode = Mode.PAUSED  # type: ignore[misc]


def test_no_annotations_ask_for_nothing() -> None:
    asked = parse_annotations({"other": "x"})
    assert (asked.hold_until, asked.freeze, asked.error) == (None, Freeze.NONE, "")


def test_a_hold_is_read_with_its_zone() -> None:
    asked = parse_annotations({HOLD_UNTIL: "2026-11-29T20:00:00+02:00", FREEZE: "ScaleDown"})
    assert asked.hold_until == 1_795_975_200
    assert asked.freeze is Freeze.SCALE_DOWN
    assert asked.error == ""


@pytest.mark.parametrize(
    "text", ["2026-11-29T18:00:00", "tomorrow", "2026-11-29", "2026-13-29T18:00:00Z", "1795975200"]
)
def test_a_hold_that_cannot_be_read_is_reported_with_an_example(text: str) -> None:
    asked = parse_annotations({HOLD_UNTIL: text})
    assert asked.hold_until is None
    assert asked.error.startswith(f'annotation kvscale.io/hold-until: "{text}" is no RFC 3339 time')
    assert "2026-11-29T18:00:00Z" in asked.error


def test_both_annotations_report_their_errors() -> None:
    asked = parse_annotations({HOLD_UNTIL: "soon", FREEZE: "down"})
    assert asked.freeze is Freeze.NONE
    assert "hold-until" in asked.error
    assert 'freeze: "down" is not known: use ScaleUp or ScaleDown' in asked.error
