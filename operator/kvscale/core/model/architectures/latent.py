"""Architectures of attention models with one latent for all heads, by name.

What `evidence` means is said in `architectures.table`.
"""

from dataclasses import replace

from kvscale.core.model.architectures.mixture_keys import DEEPSEEK
from kvscale.core.model.architectures.row import Architecture, Attention, Family, Vision

_DSA = Architecture(
    "allocation: GLM-5, 5.1, 5.2, 5.3", attention=Attention.LATENT, mixture=DEEPSEEK
)
_DEEPSEEK_V3 = Architecture("allocation: DeepSeek-V3", attention=Attention.LATENT, mixture=DEEPSEEK)

LATENT = {
    "Glm4MoeLiteForCausalLM": replace(
        _DEEPSEEK_V3,
        evidence="module: glm4_moe_lite",
        mixture=replace(DEEPSEEK, router_dtype="float32", correction=True),
    ),
    "DeepseekV2ForCausalLM": replace(_DEEPSEEK_V3, evidence="count: DeepSeek-V2-Lite"),
    "DeepseekV3ForCausalLM": _DEEPSEEK_V3,
    "DeepseekV32ForCausalLM": replace(_DSA, evidence="module: deepseek_v2"),
    "GlmMoeDsaForCausalLM": _DSA,
    "DeepseekV4ForCausalLM": Architecture(
        "allocation: DeepSeek-V4-Flash, Pro", family=Family.DEEPSEEK_V4, mixture=DEEPSEEK
    ),
    "MistralLarge3ForCausalLM": replace(_DEEPSEEK_V3, evidence="module: mistral_large_3"),
    "KimiVLForConditionalGeneration": replace(
        _DEEPSEEK_V3, evidence="module: kimi_vl", vision=Vision.MOON_VIT_VL
    ),
    "KimiK25ForConditionalGeneration": replace(
        _DEEPSEEK_V3, evidence="allocation: Kimi-K2.5, K2.6, K2.7", vision=Vision.MOON_VIT
    ),
}
"""By `architectures[0]` of a config.json."""
