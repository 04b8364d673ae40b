"""Reading a config.json: what is read, what is refused, and that nothing breaks it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape
from kvscale.core.refusal import Refusal

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
QWEN = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 128}


def config_of(name: str) -> dict[str, Any]:
    return json.loads((CONFIGS / name / "config.json").read_text())


def shape_of(config: dict[str, Any], **more: Any) -> ModelShape:
    shape = read_shape(config | more, "model")
    assert isinstance(shape, ModelShape), shape
    return shape


def refusal_of(config: Any, **more: Any) -> Refusal:
    refusal = read_shape(config | more if more else config, "model")
    assert isinstance(refusal, Refusal), refusal
    return refusal


READ = {path.parent.name for path in CONFIGS.glob("*/config.json")}


def test_an_unknown_architecture_is_refused_by_name() -> None:
    refusal = refusal_of(LLAMA | {"architectures": ["QuantumForCausalLM"]})
    assert (refusal.reason, refusal.field) == ("UnknownArchitecture", "architectures")
    assert "QuantumForCausalLM" in refusal.message


@pytest.mark.parametrize("name", sorted(READ))
def test_every_public_config_is_read_with_all_its_layers(name: str) -> None:
    config = config_of(name)
    shape = read_shape(config, name)
    assert isinstance(shape, ModelShape), shape
    text = config.get("text_config", config)
    stated = text.get("num_hidden_layers") or len(text["layers_block_type"])
    assert shape.layers == stated


def test_grouped_query_attention_is_read() -> None:
    shape = shape_of(LLAMA)
    assert shape.layer_groups == (LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),)
    assert (shape.hidden_size, shape.vocabulary_size, shape.attention_heads) == (4096, 128256, 32)
    assert shape.kv_cache_dtype == "bfloat16"


def test_without_kv_heads_every_head_has_its_own() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert shape_of(config).layer_groups[0].kv_heads == 32


def test_one_kv_head_is_read() -> None:
    assert shape_of(LLAMA, num_key_value_heads=1).layer_groups[0].kv_heads == 1


def test_an_explicit_head_dim_wins_over_the_quotient() -> None:
    assert shape_of(LLAMA, head_dim=256).layer_groups[0].head_dim_k == 256


def test_latent_attention_keeps_one_latent_per_token() -> None:
    shape = shape_of(config_of("deepseek-ai--DeepSeek-V3"))
    assert shape.layer_groups == (LayerGroup(LayerKind.MLA, 61, 1, 576, 0),)


def test_a_window_that_is_switched_off_is_full_attention() -> None:
    shape = shape_of(QWEN, sliding_window=4096, use_sliding_window=False, max_window_layers=28)
    assert shape.layer_groups[0].kind is LayerKind.FULL_ATTENTION


def test_a_window_on_every_layer_is_kept_and_on_some_is_not() -> None:
    switched = {"sliding_window": 4096, "use_sliding_window": True}
    (every,) = shape_of(QWEN, **switched, max_window_layers=0).layer_groups
    assert (every.kind, every.window) == (LayerKind.SLIDING_WINDOW, 4096)
    for first in (1, 28, 32):
        (some,) = shape_of(QWEN, **switched, max_window_layers=first).layer_groups
        assert some.kind is LayerKind.FULL_ATTENTION


def test_mistrals_window_needs_no_switch() -> None:
    config = LLAMA | {"architectures": ["MistralForCausalLM"]}
    (full,) = shape_of(config, sliding_window=None).layer_groups
    (windowed,) = shape_of(config, sliding_window=4096).layer_groups
    assert (full.kind, windowed.kind) == (LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"cross_attention_layers": [3]}, "cross_attention_layers"),
        ({"num_kv_shared_layers": 10}, "num_kv_shared_layers"),
        ({"index_topk": 2048}, "index_topk"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size"),
        ({"attn_type_list": [1, 0]}, "attn_type_list"),
        ({"layer_types": ["full_attention", "mamba"]}, "layer_types"),
        ({"layer_types": ["full_attention", "quantum_attention"]}, "layer_types"),
    ],
)
def test_each_mark_of_another_layer_kind_is_refused(more: dict[str, Any], field: str) -> None:
    refusal = refusal_of(LLAMA, **more)
    assert (refusal.reason, refusal.field) == ("UnsupportedLayerKind", field)


@pytest.mark.parametrize(
    "more",
    [
        {"is_encoder_decoder": False},
        {"num_kv_shared_layers": 0},
        {"index_topk": None},
        {"attn_type_list": [1] * 32},
        {"layer_types": ["full_attention"] * 32},
        {"full_attention_interval": 1},
    ],
)
def test_a_mark_that_is_switched_off_is_no_obstacle(more: dict[str, Any]) -> None:
    shape_of(LLAMA, **more)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", "4096"),
        ("hidden_size", 0),
        ("hidden_size", -4096),
        ("hidden_size", math.nan),
        ("hidden_size", 1e300),
        ("hidden_size", 10**400),
        ("hidden_size", True),
        ("hidden_size", [4096]),
        ("num_attention_heads", 0),
        ("num_attention_heads", -32),
        ("num_key_value_heads", 7),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", {}),
        ("vocab_size", {"a": {"b": []}}),
        ("head_dim", "x"),
        ("max_position_embeddings", -1),
        ("rope_scaling", [1]),
        ("rope_scaling", {"rope_type": "yarn", "factor": math.inf}),
        ("tie_word_embeddings", "yes"),
        ("torch_dtype", "int3"),
        ("quantization_config", "fp8"),
        ("layer_types", "full_attention"),
        ("layer_types", [3]),
        ("text_config", 3),
    ],
)
def test_a_bad_value_is_refused_with_its_key(key: str, value: Any) -> None:
    refusal = refusal_of(LLAMA, **{key: value})
    assert refusal.reason == "InvalidConfig"
    assert key in refusal.field
    assert len(refusal.message) < 400


@pytest.mark.parametrize("junk", [None, [], "config", 7, {}, {"architectures": [[]]}])
def test_what_is_no_config_is_refused(junk: Any) -> None:
    assert isinstance(read_shape(junk), Refusal)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["bfloat16", "fp8", "modelopt", "yarn", "full_attention", 1, 8, 64, 4096])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = sorted(
    {
        key
        for name in (
            "deepseek-ai--DeepSeek-V3",
            "Qwen--Qwen3-30B-A3B",
            "nvidia--MiniMax-M2.5-NVFP4",
        )
        for key in config_of(name)
    }
    | {"text_config", "vision_config", "kv_cache_scheme", "quant_algo", "config_groups"}
)


@given(
    base=st.sampled_from([{}, LLAMA, QWEN, config_of("deepseek-ai--DeepSeek-V3")]),
    architecture=st.sampled_from([*ARCHITECTURES, None]),
    changes=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
    quantization=JSON,
)
def test_no_config_raises(
    base: dict[str, Any], architecture: str | None, changes: dict[str, Any], quantization: Any
) -> None:
    config = base | ({"architectures": [architecture]} if architecture else {}) | changes
    answer = read_shape(config, "model", quantization)
    assert isinstance(answer, ModelShape | Refusal)
    if isinstance(answer, Refusal):
        assert answer.reason
        assert answer.field
        assert answer.message


@given(changes=st.dictionaries(st.text(max_size=20), JSON, max_size=5))
def test_no_quantization_raises(changes: dict[str, Any]) -> None:
    for method in ("fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4"):
        config = LLAMA | {"quantization_config": {"quant_method": method} | changes}
        assert isinstance(read_shape(config), ModelShape | Refusal)


def test_fp32_checkpoints_are_served_in_bf16() -> None:
    assert shape_of(LLAMA, torch_dtype="float32").dtype == "bfloat16"


def test_the_config_wins_over_the_file_beside_it() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    own = {"quantization_config": {"quant_method": "fp8"}}
    with_own, without = read_shape(LLAMA | own, "m", beside), read_shape(LLAMA, "m", beside)
    assert isinstance(with_own, ModelShape)
    assert isinstance(without, ModelShape)
    assert (with_own.quantization, without.quantization) == ("fp8", "modelopt")
