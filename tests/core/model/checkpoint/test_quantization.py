"""Bits per parameter of every checkpoint format, and what it leaves alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.model.checkpoint.module_patterns import ModulePatterns
from kvscale.core.model.checkpoint.quantization import NONE, read_quantization
from kvscale.core.model.fields import Fields, Refused

ATTENTION = "model.layers.3.self_attn.q_proj"
EXPERT = "model.layers.3.mlp.experts.0.gate_proj"


def bits(config: dict[str, Any], module: str = ATTENTION) -> int:
    return read_quantization(Fields(config)).bits(module, "bfloat16")


MODELOPT = {"quant_method": "modelopt"}


def compressed(**weights: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 16_000),
        ({"quant_method": "fp8"}, 8_000),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8_002),
        ({"quant_method": "fbgemm_fp8"}, 8_000),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4_156),
        ({"quant_method": "awq", "w_bit": 4, "group_size": 64}, 4_312),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4_156),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8_000),
        (compressed(num_bits=8, type="float", strategy="channel"), 8_000),
        (compressed(num_bits=8, type="int", strategy="channel"), 8_000),
        (compressed(num_bits=4, type="int", group_size=128, symmetric=True), 4_125),
        (compressed(num_bits=4, type="int", group_size=32, symmetric=False), 4_625),
        (compressed(num_bits=4, type="float", group_size=16), 4_500),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4_500),
        (MODELOPT | {"quant_algo": "FP8"}, 8_000),
        (MODELOPT | {"quant_algo": "MXFP8"}, 8_250),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, 8_000),
        (compressed(num_bits=8, type="float", group_size=32), 8_250),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, 4_156),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4_500),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8_000),
    ],
)
def test_each_format_counts_its_scales(config: dict[str, Any], expected: int) -> None:
    assert bits(config) == expected


def test_mxfp4_stores_only_the_experts_small() -> None:
    config = {"quant_method": "mxfp4"}
    assert bits(config, EXPERT) == 4_250
    assert bits(config) == 16_000


def test_the_head_stays_unless_the_checkpoint_says_so() -> None:
    assert bits({"quant_method": "fp8"}, "lm_head") == 16_000
    assert bits({"quant_method": "gptq", "bits": 4, "lm_head": True}, "lm_head") == 4_156


@pytest.mark.parametrize(
    "pattern",
    [
        "model.layers.3.self_attn.q_proj",
        "model.layers.3.self_attn",
        "self_attn",
        "model.layers.3.self_attn*",
        "language_model.model.layers.3*",
        "model.layers.*.self_attn",
        "re:.*self_attn.*",
        r"re:.*layers\.3\.self_attn\.(q|k)_proj$",
    ],
)
def test_an_ignored_module_keeps_its_size(pattern: str) -> None:
    patterns = ModulePatterns([pattern], "ignore")
    assert ATTENTION in patterns
    assert EXPERT not in patterns or pattern == "language_model.model.layers.3*"


@pytest.mark.parametrize(
    "pattern", ["3", "attn", "model.layers.30.self_attn", "model.layers.3.mlp", "layers.4*", "re:x"]
)
def test_a_pattern_for_something_else_matches_nothing(pattern: str) -> None:
    assert ATTENTION not in ModulePatterns([pattern], "ignore")


@pytest.mark.parametrize(
    "pattern", ["re:(a+)+$", "re:(.*.*)*b", "re:[", "re:.*a.*b.*c", "re:" + "a" * 301]
)
def test_an_expression_without_a_bound_is_not_run(pattern: str) -> None:
    with pytest.raises(Refused) as refused:
        ModulePatterns([pattern], "quantization_config.ignore")
    assert refused.value.refusal.reason == "UnsupportedQuantization"
    assert refused.value.refusal.field == "quantization_config.ignore"


def test_more_patterns_than_can_be_matched_in_time_are_refused() -> None:
    for many in ([f"re:a{n}" for n in range(33)], [f"a{n}*" for n in range(513)]):
        with pytest.raises(Refused):
            ModulePatterns(many, "ignore")


def test_a_long_list_of_plain_names_is_no_obstacle() -> None:
    names = [f"model.layers.{n}.self_attn.q_proj" for n in range(50_000)]
    assert ATTENTION in ModulePatterns(names, "ignore")


def test_named_targets_win_over_all_linear_layers() -> None:
    config = compressed(num_bits=8, type="float")
    config["config_groups"]["group_1"] = {
        "targets": ["re:.*experts.*"],
        "weights": {"num_bits": 4, "type": "int", "group_size": 32},
    }
    assert bits(config, EXPERT) == 4_500
    assert bits(config) == 8_000


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "aqlm"}, "quant_method"),
        ({"quant_method": "modelopt", "quant_algo": "W3A3"}, "quant_algo"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:(a+)+": {}}}, "dynamic"),
    ],
)
def test_a_format_without_a_rule_is_refused_by_name(config: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        read_quantization(Fields(config))
    assert (refused.value.refusal.reason, refused.value.refusal.field) == (
        "UnsupportedQuantization",
        field,
    )


@pytest.mark.parametrize(
    "scheme", ["FP8", "fp8", {"dynamic": False, "num_bits": 8, "type": "float"}]
)
def test_the_checkpoint_may_ask_for_an_fp8_cache(scheme: Any) -> None:
    config = MODELOPT | {"quant_algo": "NVFP4", "kv_cache_scheme": scheme}
    assert read_quantization(Fields(config)).kv_cache == "fp8"


def test_without_a_quantisation_nothing_is_quantised() -> None:
    assert read_quantization(None) is NONE


def mixed(**modules: str) -> dict[str, Any]:
    listed = {name: {"quant_algo": algorithm} for name, algorithm in modules.items()}
    return MODELOPT | {"quant_algo": "MIXED_PRECISION", "quantized_layers": listed}


def test_mixed_precision_has_an_algorithm_for_each_module() -> None:
    config = mixed(**{
        "language_model.model.layers.3.self_attn.q_proj": "MXFP8",
        "language_model.model.layers.3.mlp.experts.0.gate_proj": "NVFP4",
        "language_model.model.layers.3.mlp.experts.1.gate_proj": "unread, as every expert is alike",
        "lm_head": "W4A16_NVFP4",
    })  # fmt: skip
    assert bits(config) == 8_250
    assert bits(config, EXPERT) == 4_500
    assert bits(config, "lm_head") == 4_500
    assert bits(config, "model.layers.4.self_attn.q_proj") == 16_000


def test_gptqs_dynamic_rules_leave_out_and_store_otherwise() -> None:
    config = {
        "quant_method": "gptq", "bits": 4, "group_size": 128,
        "dynamic": {r"-:.*self_attn.*": {}, r"+:.*experts.*": {"bits": 8, "group_size": 32}},
    }  # fmt: skip
    assert bits(config) == 16_000
    assert bits(config, EXPERT) == 8_750
    assert bits(config, "model.layers.3.mlp.down_proj") == 4_156


def test_autoround_stores_some_modules_otherwise() -> None:
    config = {"quant_method": "auto-round", "bits": 4, "extra_config": {ATTENTION: {"bits": 16}}}
    assert bits(config) == 16_000
    assert bits(config, EXPERT) == 4_156


def test_modelopt_stores_the_head_as_the_rest_unless_it_is_excluded() -> None:
    config = MODELOPT | {"quant_algo": "NVFP4"}
    assert bits(config, "lm_head") == 4_500
    assert bits(config | {"exclude_modules": ["lm_head"]}, "lm_head") == 16_000


def test_compressed_tensors_store_the_head_only_by_its_name() -> None:
    config = compressed(num_bits=8, type="float")
    config["ignore"] = []
    assert bits(config, "lm_head") == 16_000
    config["config_groups"]["group_0"]["targets"] = ["lm_head"]
    assert bits(config, "lm_head") == 8_000


@pytest.mark.parametrize("before", ["", "model.", "backbone.", "model.language_model."])
def test_a_checkpoint_may_write_anything_before_its_layers(before: str) -> None:
    assert ATTENTION in ModulePatterns([f"{before}layers.3.self_attn.q_proj"], "ignore")
    assert ATTENTION in ModulePatterns([f"{before}layers.3.self_attn*"], "ignore")
    assert ATTENTION not in ModulePatterns([f"mtp.{before}layers.3.self_attn*"], "ignore")


PIECES = st.sampled_from(
    [
        "model.",
        "backbone.",
        "layers.",
        "1",
        "3",
        ".",
        "self_attn",
        "q_proj",
        "*",
        "re:",
        ".*",
        r"\d",
    ]
)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), max_size=4))
def test_layers_that_no_pattern_names_are_alike(patterns: list[str]) -> None:
    try:
        found = ModulePatterns(patterns, "ignore")
    except Refused:
        return
    unnamed = [index for index in range(8) if not found.names_layer(index)]
    answers = {f"model.layers.{index}.self_attn.q_proj" in found for index in unnamed}
    assert len(answers) <= 1
