"""How long a sequence a config says that the model takes, and what vLLM serves of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.fields import Fields
from kvscale.core.model.positions import Positions, read_positions
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

CONFIGS = Path(__file__).parents[2] / "data"
GIB = 1 << 30
H200 = Device("NVIDIA-H200", 140 * GIB, compute_capability="9.0")


def positions(**config):
    return read_positions(Fields(config))


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"n_positions": 1024}, 1024),
        ({"max_target_positions": 448}, 448),
        ({"max_position_embeddings": 8192, "seq_length": 4096}, 4096),
        ({"max_position_embeddings": 8192, "model_max_length": 131_072}, 131_072),
    ],
)
def test_the_shortest_stated_length_counts_but_for_command_r(config, longest):
    assert positions(**config) == Positions(longest)


def scaled(kind, **rope):
    return positions(
        max_position_embeddings=32_768, rope_scaling={"rope_type": kind, "factor": 4.0} | rope
    )


@pytest.mark.parametrize(
    ("kind", "longest"),
    [("linear", 131_072), ("dynamic", 131_072), ("llama3", 32_768), ("default", 32_768)],
)
def test_a_scaling_lengthens_what_is_stated_before_it(kind, longest):
    assert scaled(kind) == Positions(longest)


def test_positions_under_yarn_are_stated_after_it():
    """As transformers computes it; vLLM before 0.30 multiplied the original positions."""
    assert scaled("yarn") == Positions(32_768, None, 131_072)
    assert scaled("yarn", original_max_position_embeddings=8192) == Positions(32_768, None, 32_768)


def test_a_long_rope_is_served_at_its_original_length():
    read = positions(
        max_position_embeddings=131_072,
        original_max_position_embeddings=4096,
        rope_scaling={"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]},
    )
    assert read == Positions(131_072, 4096)


def test_gemma_3_states_its_positions_after_the_scaling():
    config = json.loads(
        (CONFIGS / "hf_configs" / "google--gemma-3-4b-it" / "config.json").read_text()
    )
    shape = read_shape(config)
    assert isinstance(shape, ModelShape)
    assert shape.max_position_embeddings == 131_072


def served(shape, version, **settings):
    engine = EngineConfig(kind=EngineKind.VLLM, version=version, **settings)
    found = engine_capacity(shape, engine, H200, 64 * GIB)
    return found.max_model_len if isinstance(found, EngineCapacity) else found


@pytest.fixture
def llama():
    config = json.loads(
        (CONFIGS / "hf_configs" / "meta-llama--Meta-Llama-3.1-8B" / "config.json").read_text()
    )
    shape = read_shape(config)
    assert isinstance(shape, ModelShape)
    return shape


def test_the_version_decides_how_yarn_is_read(llama):
    shape = replace(llama, max_position_embeddings=32_768, positions_by_yarn=131_072)
    assert served(shape, "0.29.0") == 131_072
    assert served(shape, "0.30.0") == 32_768
    assert served(shape, "0.29.0", max_model_len=131_072) == 131_072
    refused = served(shape, "0.30.0", max_model_len=131_072)
    assert isinstance(refused, Refusal)
    assert refused.reason == "MaxModelLenTooLong"


def test_a_long_rope_is_spared_unless_asked_for(llama):
    shape = replace(llama, max_position_embeddings=131_072, positions_unasked=4096)
    assert served(shape, "0.32.0") == 4096
    assert served(shape, "0.11.0") == 131_072
    assert served(shape, "0.32.0", max_model_len=131_072) == 131_072


def test_a_model_that_states_no_length_is_served_2048_tokens_or_what_is_asked_for(llama):
    unstated = positions()
    assert unstated == Positions(None, 2048)
    shape = replace(llama, max_position_embeddings=None, positions_unasked=unstated.unasked)
    assert served(shape, "0.32.0") == 2048
    assert served(shape, "0.32.0", max_model_len=65_536) == 65_536
