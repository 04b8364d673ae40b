"""Architectures of attention models with mixtures of experts, by name.

What `evidence` means is said in `architectures.table`.
"""

from dataclasses import replace

from kvscale.core.model.architectures.mixture_keys import (
    AFMOE,
    DEEPSEEK,
    ERNIE,
    EXAONE,
    MINIMAX,
    MIXTRAL,
    QWEN,
    QWEN_SHARED,
    STEP,
)
from kvscale.core.model.architectures.row import (
    Architecture,
    Family,
    MixtureKeys,
    QkNorm,
    Vision,
)

_QWEN3 = Architecture("allocation: Qwen3-8B, 32B", window_needs_switch=True, qk_norm=QkNorm.HEAD)
_GEMMA4 = Architecture(
    "allocation: Gemma-4-26B-A4B",
    family=Family.GEMMA_4,
    qk_norm=QkNorm.HEAD,
    tied=True,
    mixture=MixtureKeys("num_experts", "moe_intermediate_size", chosen="top_k_experts"),
)
_LLAMA4 = Architecture(
    "allocation: Llama-4-Scout, Maverick",
    family=Family.LLAMA_4,
    mixture=MixtureKeys(
        "num_local_experts",
        "intermediate_size",
        module="feed_forward",
        shared_width="intermediate_size",
        step="interleave_moe_layer_step",
        offset=1,
    ),
)
_MIMO_V2 = Architecture(
    "allocation: MiMo-V2-Flash",
    family=Family.MIMO_V2,
    mixture=replace(
        DEEPSEEK, shared="", dense_first="", step="", router_dtype="float32", correction=True
    ),
)
_MINIMAX_M3 = Architecture(
    "allocation: MiniMax-M3",
    family=Family.MINIMAX_M3,
    qk_norm=QkNorm.HEAD,
    mixture=replace(MINIMAX, shared="n_shared_experts"),
    renamed=(("dense_width", "dense_intermediate_size"),),
)
_STEP_3P5 = Architecture(
    "module: step3p5",
    family=Family.STEP_3P5,
    qk_norm=QkNorm.HEAD,
    renamed=(
        ("num_key_value_heads", "num_attention_groups"),
        ("moe_num_experts", "num_experts"),
        ("moe_top_k", "num_experts_per_tok"),
        ("moe_dense_first", "first_k_dense_replace"),
    ),
    defaults=(("moe_dense_first", 1),),
    mixture=STEP,
)
_GRANITE_MOE = Architecture("count: Granite-3.1-1B-A400M, 3B-A800M", mixture=MIXTRAL)
_GROK = Architecture(
    "module: grok1 of vllm v0.11.0",
    norms=4,
    tied=True,
    mixture=MixtureKeys("num_experts", "intermediate_size"),
)

_EXAONE = Architecture(
    "module: exaone_moe",
    qk_norm=QkNorm.HEAD,
    mixture=EXAONE,
)

MIXTURES = {
    "ExaoneMoEForCausalLM": _EXAONE,
    "ExaoneMoeForCausalLM": _EXAONE,
    "OlmoeForCausalLM": Architecture(
        "count: OLMoE-1B-7B",
        qk_norm=QkNorm.ALL_HEADS,
        mixture=MixtureKeys("num_experts", "intermediate_size"),
    ),
    "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4ForConditionalGeneration": replace(_GEMMA4, vision=Vision.GEMMA_4),
    "DbrxForCausalLM": Architecture(
        "count: DBRX",
        norms=2,
        renamed=(
            ("hidden_size", "d_model"),
            ("num_attention_heads", "n_heads"),
            ("num_hidden_layers", "n_layers"),
            ("max_position_embeddings", "max_seq_len"),
            ("num_key_value_heads", "attn_config.kv_n_heads"),
            ("moe_num_experts", "ffn_config.moe_num_experts"),
            ("moe_top_k", "ffn_config.moe_top_k"),
            ("ffn_hidden_size", "ffn_config.ffn_hidden_size"),
        ),
        mixture=MixtureKeys("moe_num_experts", "ffn_hidden_size", chosen="moe_top_k"),
    ),
    "Grok1ModelForCausalLM": _GROK,
    "Grok1ForCausalLM": _GROK,
    "HYV3ForCausalLM": Architecture(
        "module: hy_v3",
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="qk_norm",
        mixture=MixtureKeys(
            "num_experts",
            "expert_hidden_dim",
            shared="num_shared_experts",
            dense_first="first_k_dense_replace",
            router_dtype="float32",
            correction=True,
        ),
    ),
    "HunYuanMoEV1ForCausalLM": Architecture(
        "count: Hunyuan-A13B",
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        mixture=MixtureKeys(
            "num_experts",
            "moe_intermediate_size",
            chosen="moe_topk",
            shared="num_shared_expert",
            router_dtype="float32",
        ),
        rotary=False,
    ),
    "BailingMoeV2ForCausalLM": Architecture(
        "module: bailing_moe",
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        renamed=(
            ("qkv_bias", "use_qkv_bias"),
            ("attention_bias", "use_bias"),
            ("mlp_bias", "use_bias"),
        ),
        mixture=MixtureKeys(
            "num_experts",
            "moe_intermediate_size",
            shared="num_shared_experts",
            dense_first="first_k_dense_replace",
            correction=True,
        ),
    ),
    "Ernie4_5_MoeForCausalLM": Architecture(
        "count: ERNIE-4.5-21B-A3B",
        renamed=(("attention_bias", "use_bias"), ("mlp_bias", "use_bias")),
        tied=True,
        mixture=ERNIE,
    ),
    "MixtralForCausalLM": Architecture("allocation: Mixtral-8x22B", mixture=MIXTRAL),
    "PhiMoEForCausalLM": Architecture(
        "count: Phi-3.5-MoE",
        norm_bias=True,
        head_bias=True,
        qkv_bias=True,
        defaults=(("attention_bias", True),),
        mixture=MIXTRAL,
    ),
    "GraniteMoeForCausalLM": _GRANITE_MOE,
    "GraniteMoeSharedForCausalLM": replace(
        _GRANITE_MOE,
        evidence="module: granitemoeshared",
        mixture=replace(MIXTRAL, shared_width="shared_intermediate_size"),
    ),
    "Qwen3MoeForCausalLM": replace(
        _QWEN3, evidence="allocation: Qwen3-30B-A3B, 235B-A22B, Coder-480B-A35B", mixture=QWEN
    ),
    "Qwen2MoeForCausalLM": Architecture(
        "count: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
        window_needs_switch=True,
        qkv_bias=True,
        output_bias=False,
        mixture=QWEN_SHARED,
    ),
    "Glm4MoeForCausalLM": Architecture(
        "count: GLM-4.5, GLM-4.5-Air",
        output_bias=False,
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        mixture=replace(DEEPSEEK, router_dtype="float32", correction=True),
    ),
    "MiniMaxM2ForCausalLM": Architecture(
        "allocation: MiniMax-M2.5, M2.7", qk_norm=QkNorm.ALL_HEADS, mixture=MINIMAX
    ),
    "MiniMaxM3SparseForCausalLM": _MINIMAX_M3,
    "MiniMaxM3ForCausalLM": _MINIMAX_M3,
    "MiniMaxM3SparseForConditionalGeneration": replace(_MINIMAX_M3, vision=Vision.MINIMAX),
    "Qwen3VLMoeForConditionalGeneration": replace(
        _QWEN3, evidence="module: qwen3_vl_moe", mixture=QWEN, vision=Vision.QWEN3
    ),
    "AfmoeForCausalLM": Architecture(
        "allocation: Trinity-Mini",
        qk_norm=QkNorm.HEAD,
        norms=4,
        gate_module="gate_proj",
        mixture=AFMOE,
    ),
    "Glm4vMoeForConditionalGeneration": Architecture(
        "count: GLM-4.5V",
        output_bias=False,
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        mixture=replace(DEEPSEEK, router_dtype="float32", correction=True),
        vision=Vision.GLM_4,
        positions_factor=4,
    ),
    "Llama4ForCausalLM": _LLAMA4,
    "Llama4ForConditionalGeneration": replace(_LLAMA4, vision=Vision.LLAMA_4),
    "GptOssForCausalLM": Architecture(
        "allocation: gpt-oss-20b, 120b",
        family=Family.GPT_OSS,
        mixture=MixtureKeys("num_local_experts", "intermediate_size"),
    ),
    "MiMoV2FlashForCausalLM": _MIMO_V2,
    "MiMoV2ForCausalLM": _MIMO_V2,
    "Step3p5ForCausalLM": _STEP_3P5,
    "Step3p7FlashForCausalLM": _STEP_3P5,
}
"""By `architectures[0]` of a config.json."""
