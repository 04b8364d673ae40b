"""A config that anybody wrote: it is read, or refused with the key at fault, and soon."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.checkpoint.quantization import read_quantization
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import WeightGroup
from kvscale.core.model.weights.dimensions import read_dimensions
from kvscale.core.model.weights.groups import weight_groups
from kvscale.core.model.weights.vision.table import vision_groups

CONFIGS = {
    path.parent.name: json.loads(path.read_text())
    for path in sorted((Path(__file__).parents[3] / "data" / "hf_configs").glob("*/config.json"))
}
JUNK = st.one_of(
    st.sampled_from([
        0, 1, -1, 3, 7, 1.5, 1e308, float("nan"), float("inf"), 1 << 70, True, None, "", "4096",
        "auto", [], {}, [None], [[]], [0] * 512, ["full_attention"] * 512, {"a": {}}, "M" * 4096,
    ]),
    st.integers(-(1 << 40), 1 << 40),
    st.text(max_size=8),
)  # fmt: skip
SLOWEST_SECONDS = 0.5
"""Many times what the slowest takes, for a machine that does other things too."""


def groups_of(label: str, config: dict[str, Any]) -> tuple[WeightGroup, ...]:
    top = Fields(config)
    text = top.child("text_config") or top
    architecture = ARCHITECTURES[label]
    d = read_dimensions(text, top, architecture, "bfloat16")
    stored = read_quantization(top.child("quantization_config"))
    return (
        *weight_groups(d, architecture, stored),
        *vision_groups(architecture.vision, top, "bfloat16"),
    )


def read_or_refused(label: str, config: dict[str, Any]) -> tuple[WeightGroup, ...]:
    """The groups, or none where the config is refused; a refusal says which key is at fault."""
    try:
        return groups_of(label, config)
    except Refused as refused:
        found = refused.refusal
    assert found.field
    assert found.message
    return ()


def mutated(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    nested = {
        name: mutated(child, key, value)
        for name, child in config.items()
        if isinstance(child, dict) and name != "quantized_layers"
    }
    return config | nested | ({key: value} if key in config else {})


@pytest.mark.parametrize("label", sorted(ARCHITECTURES))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_junk_is_refused_by_key_or_read(label: str, data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(list(CONFIGS.values())))
    keys = sorted(set(config) | set(config.get("text_config") or {}))
    for _ in range(data.draw(st.integers(0, 3))):
        config = mutated(config, data.draw(st.sampled_from(keys)), data.draw(JUNK))
    groups = read_or_refused(label, config)
    assert all(group.parameters > 0 for group in groups)
    assert all(group.bits_per_parameter_milli > 0 for group in groups)


@pytest.mark.parametrize(
    "name", [n for n, c in CONFIGS.items() if c["architectures"][0] in ARCHITECTURES]
)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_one_wrong_value_in_a_real_config_is_refused_or_read(
    name: str, data: st.DataObject
) -> None:
    config = CONFIGS[name]
    keys = sorted(
        set(config) | set(config.get("text_config") or {}) | set(config.get("vision_config") or {})
    )
    broken = mutated(config, data.draw(st.sampled_from(keys)), data.draw(JUNK))
    read_or_refused(config["architectures"][0], broken)


QWEN = CONFIGS["Qwen--Qwen3-30B-A3B"] | {"num_hidden_layers": 512}


@pytest.mark.parametrize(
    "patterns",
    [
        [f"model.layers.{n}.self_attn.q_proj" for n in range(30_000)],
        [f"model.layers.{n}.self_attn*" for n in range(512)],
        [f"model.layers.{n}.mlp{m}*" for n in range(512) for m in range(8)],
        [rf"re:.*layers\.\d+\.x{n}.*" for n in range(32)],
        [f"re:.*a.*b{n}[x]" for n in range(32)],
        [f"*{n}.q*z*" for n in range(32)],
        [f"{n}*" for n in range(512)],
    ],
    ids=lambda patterns: patterns[1],
)
def test_a_long_ignore_list_over_many_layers_takes_no_time(patterns: list[str]) -> None:
    config = QWEN | {
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": patterns}
    }
    start = time.process_time()
    assert groups_of("Qwen3MoeForCausalLM", config)
    assert time.process_time() - start < SLOWEST_SECONDS
