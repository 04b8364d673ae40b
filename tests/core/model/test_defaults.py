"""A key that a config.json leaves out has the value of its class, as the engine sees it."""

import json
from pathlib import Path

import pytest

from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"


def config(model):
    return json.loads((CONFIGS / model / "config.json").read_text())


def shape(found) -> ModelShape:
    read = read_shape(found)
    assert isinstance(read, ModelShape), read
    return read


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("mistralai--Mixtral-8x7B-v0.1", "num_local_experts"),
        ("mistralai--Mixtral-8x7B-v0.1", "num_key_value_heads"),
        ("mistralai--Mixtral-8x7B-v0.1", "intermediate_size"),
        ("Qwen--Qwen3-30B-A3B", "num_experts"),
        ("Qwen--Qwen3-30B-A3B", "num_key_value_heads"),
        ("Qwen--Qwen3-30B-A3B", "moe_intermediate_size"),
        ("Qwen--Qwen3-30B-A3B", "num_experts_per_tok"),
        ("openai--gpt-oss-20b", "head_dim"),
        ("openai--gpt-oss-20b", "sliding_window"),
        ("deepseek-ai--DeepSeek-V3", "n_routed_experts"),
        ("deepseek-ai--DeepSeek-V3", "n_shared_experts"),
        ("deepseek-ai--DeepSeek-V3", "first_k_dense_replace"),
        ("deepseek-ai--DeepSeek-V3", "intermediate_size"),
        ("deepseek-ai--DeepSeek-V3", "q_lora_rank"),
        ("zai-org--GLM-4.5-Air", "n_routed_experts"),
        ("zai-org--GLM-4.5-Air", "first_k_dense_replace"),
    ],
)
def test_a_key_left_out_where_the_class_has_the_same_value_changes_nothing(model, key):
    """vLLM 0.32 builds the same model of both."""
    whole = config(model)
    assert key in whole
    assert shape({k: v for k, v in whole.items() if k != key}) == shape(whole)


def test_the_default_is_the_classes_and_not_the_models():
    """LlamaConfig: 11,008; 32 layers of three matrices of the model's 4,096."""
    stated = config("meta-llama--Meta-Llama-3.1-8B")
    del stated["intermediate_size"]
    groups = shape(stated).weight_groups
    assert (
        sum(group.parameters for group in groups if group.name == "feedForward")
        == 32 * 3 * 4096 * 11_008
    )


def test_null_is_stated():
    """MistralConfig has a window of 4,096 tokens unless the config says that there is none."""
    mistral = {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
    }
    (left_out,) = shape(mistral).layer_groups
    (null,) = shape({**mistral, "sliding_window": None}).layer_groups
    assert left_out.window == 4096
    assert null.window is None


def test_a_key_may_stand_under_the_classes_own_name():
    whole = config("Qwen--Qwen3-30B-A3B")
    renamed = {**whole, "num_local_experts": 64}
    del renamed["num_experts"]
    assert shape(renamed) == shape({**whole, "num_experts": 64})


def test_a_part_without_a_type_has_the_one_of_the_whole():
    whole = config("google--gemma-3-4b-it")
    gone = {"model_type", "num_attention_heads"}
    text = {k: v for k, v in whole["text_config"].items() if k not in gone}
    assert shape({**whole, "text_config": text}).attention_heads == 8


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers"])
def test_what_makes_the_model_this_one_must_be_stated(key):
    stated = config("meta-llama--Meta-Llama-3.1-8B")
    del stated[key]
    refused = read_shape(stated)
    assert isinstance(refused, Refusal)
    assert refused.field == key


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("mistralai--Mixtral-8x7B-v0.1", "num_local_experts"),
        ("Qwen--Qwen3-30B-A3B", "num_experts"),
        ("meta-llama--Meta-Llama-3.1-8B", "intermediate_size"),
    ],
)
def test_without_a_known_class_a_size_left_out_is_refused(model, key):
    stated = {**config(model), "model_type": "a_class_of_its_own"}
    del stated[key]
    refused = read_shape(stated)
    assert isinstance(refused, Refusal)
    assert refused.field == key
    assert "is missing" in refused.message


def test_a_width_that_is_null_is_refused():
    """The class does not mend it: the engine ends with an error."""
    refused = read_shape({**config("meta-llama--Meta-Llama-3.1-8B"), "intermediate_size": None})
    assert isinstance(refused, Refusal)
    assert refused.field == "intermediate_size"
