"""The architectures whose layers are known, by the name in `architectures[0]` of a config.json.

An architecture without a row is refused by name: its layers may be made of something else.

Evidence: `allocation` rows were compared with what vLLM 0.32.0 allocates for a config of that
architecture (weights per rank); `count` rows with the published parameter count; `module` rows
follow the named module of vLLM 0.32.0 (or of transformers) and were compared with nothing else.
"""

from dataclasses import replace

from kvscale.core.model.architectures.dense import DENSE
from kvscale.core.model.architectures.hybrid import HYBRID
from kvscale.core.model.architectures.latent import LATENT
from kvscale.core.model.architectures.mixtures import MIXTURES
from kvscale.core.model.architectures.row import Architecture

__all__ = ["ARCHITECTURES", "Architecture"]

_BOTH_ENDS = (
    "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "MixtralForCausalLM",
    "GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration",
    "Gemma3nForCausalLM", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
    "CohereForCausalLM", "Cohere2ForCausalLM", "PhiMoEForCausalLM", "GptOssForCausalLM",
    "GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", "GraniteMoeHybridForCausalLM",
    "NemotronHForCausalLM", "OlmoeForCausalLM", "FalconForCausalLM", "DbrxForCausalLM",
    "JambaForCausalLM", "MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM",
    "Zamba2ForCausalLM", "InternLM2ForCausalLM", "StableLmForCausalLM", "HYV3ForCausalLM",
    "GPT2LMHeadModel", "OPTForCausalLM", "OlmoHybridForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
)  # fmt: skip
_EMBEDDING = (
    "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM",
    "MiniCPM3ForCausalLM",
)  # fmt: skip
"""Architectures whose modules build these on every pipeline stage (vllm v0.32.0)."""


def _with_ends(name: str, row: Architecture) -> Architecture:
    ends = ("embedding", "head") if name in _BOTH_ENDS else ()
    return replace(row, name=name, on_every_stage=("embedding",) if name in _EMBEDDING else ends)


ARCHITECTURES: dict[str, Architecture] = {
    name: _with_ends(name, row) for name, row in {**DENSE, **MIXTURES, **LATENT, **HYBRID}.items()
}
