"""Architectures whose layers keep states, or read an encoder, by name.

What `evidence` means is said in `architectures.table`.
"""

from dataclasses import replace

from kvscale.core.model.architectures.mixture_keys import DEEPSEEK, MIXTRAL, QWEN_SHARED
from kvscale.core.model.architectures.row import (
    Architecture,
    Attention,
    Family,
    MixtureKeys,
    QkNorm,
    Vision,
)

_QWEN35 = Architecture(
    "allocation: Qwen3.5-27B",
    family=Family.QWEN_NEXT,
    qk_norm=QkNorm.HEAD,
    vision=Vision.QWEN3,
    recurrent_module="in_proj_qkv",
)
_DEEPSEEK_V3 = Architecture("allocation: DeepSeek-V3", attention=Attention.LATENT, mixture=DEEPSEEK)
_NEMOTRON_H = Architecture(
    "allocation: Nemotron-3-Nano-30B-A3B", family=Family.NEMOTRON_H, rotary=False
)
_LFM2 = Architecture(
    "count: LFM2-1.2B",
    family=Family.LFM_2,
    tied=True,
    renamed=(("intermediate_size", "block_ff_dim"), ("num_attention_heads", "num_heads")),
)

HYBRID = {
    "WhisperForConditionalGeneration": Architecture(
        "allocation: Whisper-large-v3",
        family=Family.WHISPER,
        whole_embedding=True,
        gated=False,
        norm_bias=True,
        tied=True,
        rotary=False,
        renamed=(
            ("hidden_size", "d_model"),
            ("num_attention_heads", "decoder_attention_heads"),
            ("num_hidden_layers", "decoder_layers"),
            ("intermediate_size", "decoder_ffn_dim"),
            ("max_position_embeddings", "max_target_positions"),
        ),
    ),
    "Qwen3NextForCausalLM": replace(
        _QWEN35,
        evidence="count: Qwen3-Next-80B-A3B",
        mixture=QWEN_SHARED,
        vision=Vision.NONE,
        recurrent_module="in_proj_qkvz",
    ),
    "OlmoHybridForCausalLM": replace(
        _QWEN35,
        evidence="allocation: Olmo-Hybrid-7B",
        qk_norm=QkNorm.ALL_HEADS,
        vision=Vision.NONE,
        recurrent_module="in_proj_qkvg",
        defaults=(("attn_output_gate", False),),
    ),
    "Qwen3_5ForConditionalGeneration": _QWEN35,
    "Qwen3_5ForCausalLM": replace(_QWEN35, vision=Vision.NONE),
    "Qwen3_5MoeForConditionalGeneration": replace(
        _QWEN35, evidence="allocation: Qwen3.5-35B, 122B, 397B", mixture=QWEN_SHARED
    ),
    "Qwen3_5MoeForCausalLM": replace(
        _QWEN35,
        evidence="allocation: Qwen3.5-35B, 122B, 397B",
        mixture=QWEN_SHARED,
        vision=Vision.NONE,
    ),
    "MiniMaxM1ForCausalLM": Architecture(
        "count: MiniMax-Text-01", family=Family.MINIMAX_TEXT, mixture=MIXTRAL
    ),
    "MiniMaxText01ForCausalLM": Architecture(
        "count: MiniMax-Text-01", family=Family.MINIMAX_TEXT, mixture=MIXTRAL
    ),
    "MiniMaxForCausalLM": Architecture(
        "count: MiniMax-Text-01", family=Family.MINIMAX_TEXT, mixture=MIXTRAL
    ),
    "KimiLinearForCausalLM": replace(
        _DEEPSEEK_V3,
        evidence="count: Kimi-Linear-48B-A3B",
        family=Family.KIMI_LINEAR,
        rotary=False,
        mixture=MixtureKeys(
            "num_experts",
            "moe_intermediate_size",
            chosen="num_experts_per_token",
            module="block_sparse_moe",
            expert="w1",
            shared="num_shared_experts",
            dense_first="first_k_dense_replace",
            step="moe_layer_freq",
            correction=True,
        ),
    ),
    "NemotronHForCausalLM": _NEMOTRON_H,
    "GraniteMoeHybridForCausalLM": Architecture(
        "count: Granite-4.0-H-Tiny, Small",
        family=Family.GRANITE_HYBRID,
        tied=True,
        rotary=False,
        mixture=replace(MIXTRAL),
    ),
    "BambaForCausalLM": Architecture("module: bamba of transformers v4.57", family=Family.BAMBA),
    "FalconH1ForCausalLM": Architecture(
        "allocation: the defaults of transformers", family=Family.FALCON_H1, output_bias=False
    ),
    "JambaForCausalLM": Architecture(
        "count: Jamba-v0.1",
        family=Family.JAMBA,
        rotary=False,
        mixture=MixtureKeys(
            "num_experts",
            "intermediate_size",
            module="feed_forward",
            step="expert_layer_period",
            offset_key="expert_layer_offset",
            least=2,
        ),
    ),
    "MambaForCausalLM": Architecture(
        "count: Mamba-2.8B",
        family=Family.MAMBA_1,
        attention=Attention.NONE,
        tied=True,
        rotary=False,
    ),
    "FalconMambaForCausalLM": Architecture(
        "count: Falcon-Mamba-7B",
        family=Family.MAMBA_1,
        attention=Attention.NONE,
        rotary=False,
    ),
    "Mamba2ForCausalLM": Architecture(
        "count: Mamba-2-2.7B, Mamba-Codestral-7B",
        family=Family.MAMBA_2,
        attention=Attention.NONE,
        rotary=False,
    ),
    "Zamba2ForCausalLM": Architecture(
        "allocation: the defaults of transformers", family=Family.ZAMBA_2, tied=True
    ),
    "Lfm2ForCausalLM": _LFM2,
    "Lfm2MoeForCausalLM": replace(
        _LFM2,
        evidence="count: LFM2-8B-A1B",
        renamed=(),
        mixture=MixtureKeys(
            "num_experts",
            "moe_intermediate_size",
            module="feed_forward",
            dense_first="num_dense_layers",
            correction=True,
        ),
    ),
}
"""By `architectures[0]` of a config.json."""
