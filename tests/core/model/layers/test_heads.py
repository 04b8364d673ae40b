"""Heads of layers that do not have those of the model."""

from dataclasses import dataclass
from typing import Any

import pytest

from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.heads import LayerHeads, layer_heads
from kvscale.core.model.layers.mixer import Mixer


@dataclass(frozen=True)
class Stated:
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128


USUAL = LayerHeads(32, 8, 128, 128)
GLOBAL = {"attention_k_eq_v": True, "num_global_key_value_heads": 2, "global_head_dim": 512}
SWA = {
    "v_head_dim": 96, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 4,
    "swa_head_dim": 192, "swa_v_head_dim": 64,
}  # fmt: skip
OTHER = {
    "layer_types": ["sliding_attention"],
    "attention_other_setting": {
        "attention_type": "sliding_attention", "num_attention_heads": 96,
        "num_attention_groups": 4, "head_dim": 64,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "config", "mixer", "expected"),
    [
        ("LlamaForCausalLM", GLOBAL | SWA | OTHER, Mixer.SLIDING, USUAL),
        ("Gemma4ForCausalLM", GLOBAL, Mixer.SLIDING, USUAL),
        ("Gemma4ForCausalLM", GLOBAL, Mixer.SHARED_SLIDING, USUAL),
        ("Gemma4ForCausalLM", GLOBAL, Mixer.FULL, LayerHeads(32, 2, 512, 512)),
        ("Gemma4ForCausalLM", GLOBAL, Mixer.SHARED, LayerHeads(32, 2, 512, 512)),
        ("MiMoV2FlashForCausalLM", SWA, Mixer.FULL, LayerHeads(32, 8, 128, 96)),
        ("MiMoV2FlashForCausalLM", SWA, Mixer.SLIDING, LayerHeads(64, 4, 192, 64)),
        ("Step3p5ForCausalLM", OTHER, Mixer.SLIDING, LayerHeads(96, 4, 64, 64)),
        ("Step3p7FlashForCausalLM", OTHER, Mixer.SLIDING, LayerHeads(96, 4, 64, 64)),
        ("Step3p5ForCausalLM", OTHER, Mixer.FULL, USUAL),
        # The engine compares the names of `layer_types`; without them no layer is of that kind.
        ("Step3p5ForCausalLM", OTHER | {"layer_types": None}, Mixer.SLIDING, USUAL),
        ("Zamba2ForCausalLM", {"hidden_size": 4096}, Mixer.BOTH, LayerHeads(32, 32, 256, 256)),
        (
            "Zamba2ForCausalLM",
            {"attention_head_dim": 160},
            Mixer.BOTH,
            LayerHeads(32, 32, 160, 160),
        ),
    ],
)
def test_a_layer_has_the_heads_of_its_kind(
    architecture: str, config: dict[str, Any], mixer: Mixer, expected: LayerHeads
) -> None:
    assert layer_heads(Fields(config), architecture, Stated(), mixer) == expected
