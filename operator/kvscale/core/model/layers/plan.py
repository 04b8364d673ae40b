"""What each layer of a model mixes its tokens with: attention of some kind, a state, or nothing.

A config says it in one of many ways: a list with a name per layer, a pattern, an interval, a pair
of keys. The table names the reading of each architecture; the caches and the weights both rest on
its answer.
"""

from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.attending import (
    decilm,
    exaone,
    gemma3n,
    gemma4,
    gpt_oss,
    llama4,
    mimo,
    named_or_alike,
    patterned,
    step,
)
from kvscale.core.model.layers.mixer import Mixer, Mixers, Reading, only
from kvscale.core.model.layers.stateful import (
    bamba,
    gated_delta,
    granite,
    jamba,
    kimi_linear,
    lfm,
    minimax_text,
    nemotron_h,
    zamba2,
)
from kvscale.core.model.layers.unsupported import refuse_unsupported_layers

READINGS: dict[str, Reading] = {
    "Gemma2ForCausalLM": patterned(2),
    "Gemma3ForCausalLM": patterned(6),
    "Gemma3ForConditionalGeneration": patterned(6),
    "Gemma3nForCausalLM": gemma3n,
    "Gemma3nForConditionalGeneration": gemma3n,
    "Gemma4ForCausalLM": gemma4,
    "Gemma4ForConditionalGeneration": gemma4,
    "Cohere2ForCausalLM": patterned(4),
    "Olmo3ForCausalLM": patterned(4),
    "Exaone4ForCausalLM": exaone,
    "GptOssForCausalLM": gpt_oss,
    "Step3p5ForCausalLM": step,
    "Step3p7FlashForCausalLM": step,
    "Llama4ForCausalLM": llama4,
    "Llama4ForConditionalGeneration": llama4,
    "MiMoV2FlashForCausalLM": mimo,
    "MiMoV2ForCausalLM": mimo,
    "NemotronHForCausalLM": nemotron_h,
    "Qwen3NextForCausalLM": gated_delta,
    "Qwen3_5ForCausalLM": gated_delta,
    "Qwen3_5MoeForCausalLM": gated_delta,
    "Qwen3_5ForConditionalGeneration": gated_delta,
    "Qwen3_5MoeForConditionalGeneration": gated_delta,
    "DeciLMForCausalLM": decilm,
    "DeepseekV4ForCausalLM": only(Mixer.COMPRESSED),
    "JambaForCausalLM": jamba,
    "BambaForCausalLM": bamba,
    "FalconH1ForCausalLM": only(Mixer.BOTH),
    "GraniteMoeHybridForCausalLM": granite,
    "Zamba2ForCausalLM": zamba2,
    "Lfm2ForCausalLM": lfm,
    "Lfm2MoeForCausalLM": lfm,
    "KimiLinearForCausalLM": kimi_linear,
    "MiniMaxText01ForCausalLM": minimax_text,
    "MiniMaxM1ForCausalLM": minimax_text,
    "MiniMaxForCausalLM": minimax_text,
    # Their `layer_types` name the selection of tokens, which takes an indexer and no other cache.
    "DeepseekV32ForCausalLM": only(Mixer.FULL),
    "GlmMoeDsaForCausalLM": only(Mixer.FULL),
    "OlmoHybridForCausalLM": gated_delta,
    "WhisperForConditionalGeneration": only(Mixer.CROSSED),
    "MambaForCausalLM": only(Mixer.MAMBA1),
    "FalconMambaForCausalLM": only(Mixer.MAMBA1),
    "Mamba2ForCausalLM": only(Mixer.MAMBA2),
}
"""Architectures whose layers are not alike, or not attention."""


def layer_mixers(config: Fields, architecture: str, layers: int) -> Mixers:
    """The mixer of each layer.

    Args:
        config: of the text model.
        architecture: `architectures[0]`.
        layers: how many there are, at most `MOST_LAYERS`.

    Raises:
        Refused: a kind without a rule, by its name and the key that shows it.
    """
    reading = READINGS.get(architecture)
    if reading is None:
        refuse_unsupported_layers(config, architecture)
        reading = named_or_alike
    return reading(config, layers)
