"""Architectures whose layers attend and have one dense feed-forward, by name.

What `evidence` means is said in `architectures.table`.
"""

from dataclasses import replace

from kvscale.core.model.architectures.row import (
    Architecture,
    Attention,
    Family,
    QkNorm,
    Vision,
)

_LLAMA = Architecture("allocation: Llama-3.1-8B, 70B, 405B")
_QWEN3 = Architecture("allocation: Qwen3-8B, 32B", window_needs_switch=True, qk_norm=QkNorm.HEAD)
_GEMMA2 = Architecture("allocation: Gemma-2-2B, 9B, 27B", norms=4, tied=True)
_GEMMA3 = replace(
    _GEMMA2,
    evidence="allocation: Gemma-3-1B, 4B, 12B, 27B",
    qk_norm=QkNorm.HEAD,
    defaults=(
        ("hidden_size", 2304), ("intermediate_size", 9216), ("num_hidden_layers", 26),
        ("num_attention_heads", 8), ("num_key_value_heads", 4), ("head_dim", 256),
        ("vocab_size", 262208), ("max_position_embeddings", 131072),
        ("rope_local_base_freq", 10_000),
    ),
)  # fmt: skip
_GEMMA3N = Architecture(
    "module: gemma3n",
    family=Family.GEMMA_3N,
    qk_norm=QkNorm.HEAD,
    tied=True,
    defaults=(
        ("hidden_size", 2048), ("num_hidden_layers", 35), ("num_attention_heads", 8),
        ("num_key_value_heads", 2), ("head_dim", 256), ("vocab_size", 262400),
        ("max_position_embeddings", 32768), ("hidden_size_per_layer_input", 256),
        ("vocab_size_per_layer_input", 262144), ("num_kv_shared_layers", 15),
    ),
)  # fmt: skip
_MISTRAL = Architecture("count: Mistral-7B-v0.3")

DENSE = {
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _MISTRAL,
    "MinistralForCausalLM": replace(_MISTRAL, evidence="module: mistral", rotary=False),
    "Ministral3ForCausalLM": replace(_MISTRAL, evidence="module: mistral"),
    "Mistral3ForConditionalGeneration": replace(
        _MISTRAL, evidence="module: mistral3", vision=Vision.PIXTRAL
    ),
    "Qwen2ForCausalLM": Architecture(
        "count: Qwen2.5-7B, 72B", window_needs_switch=True, qkv_bias=True, output_bias=False
    ),
    "MiMoForCausalLM": Architecture(
        "module: mimo", window_needs_switch=True, qkv_bias=True, output_bias=False
    ),
    "Qwen3ForCausalLM": _QWEN3,
    "Phi3ForCausalLM": Architecture("count: Phi-4, Phi-4-mini"),
    "InternLM2ForCausalLM": Architecture("count: InternLM2.5-7B"),
    "InternLM3ForCausalLM": Architecture("count: InternLM3-8B"),
    "GraniteForCausalLM": Architecture("count: Granite-3.1-2B, 8B"),
    "ExaoneForCausalLM": Architecture("count: EXAONE-3.0-7.8B", layers="num_layers"),
    "Exaone4ForCausalLM": Architecture("count: EXAONE-4.0-1.2B, 32B", qk_norm=QkNorm.HEAD),
    "SmolLM3ForCausalLM": Architecture(
        "count: SmolLM3-3B", window_needs_switch=True, tied=True, rotary=False
    ),
    "Olmo2ForCausalLM": Architecture(
        "count: OLMo-2-7B, 13B", qk_norm=QkNorm.ALL_HEADS, rotary=False
    ),
    "Olmo3ForCausalLM": Architecture(
        "count: OLMo-3-7B, 32B", qk_norm=QkNorm.ALL_HEADS, rotary=False
    ),
    "GemmaForCausalLM": Architecture("count: Gemma-2B, 7B", tied=True),
    "Gemma2ForCausalLM": _GEMMA2,
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": replace(_GEMMA3, vision=Vision.SIGLIP),
    "Gemma3nForCausalLM": _GEMMA3N,
    "CohereForCausalLM": Architecture(
        "count: Command-R, Command-R+",
        qk_norm=QkNorm.ALL_HEADS,
        qk_norm_switch="use_qk_norm",
        norms=1,
        tied=True,
    ),
    "Cohere2ForCausalLM": Architecture(
        "count: Command-R7B, Command-A",
        qk_norm=QkNorm.ALL_HEADS,
        qk_norm_switch="use_qk_norm",
        norms=1,
        tied=True,
    ),
    "NemotronForCausalLM": Architecture("count: Nemotron-Mini-4B", norm_bias=True, gated=False),
    "ArceeForCausalLM": Architecture(
        "allocation: the defaults of transformers", gated=False, rotary=False
    ),
    "ApertusForCausalLM": Architecture("count: Apertus-8B", gated=False, qk_norm=QkNorm.HEAD),
    "SeedOssForCausalLM": Architecture(
        "count: Seed-OSS-36B", output_bias=False, defaults=(("attention_bias", True),), rotary=False
    ),
    "Starcoder2ForCausalLM": Architecture(
        "count: StarCoder2-3B, 7B, 15B",
        norm_bias=True,
        gated=False,
        tied=True,
        renamed=(("attention_bias", "use_bias"), ("mlp_bias", "use_bias")),
        defaults=(("attention_bias", True), ("mlp_bias", True)),
        rotary=False,
    ),
    "StableLmForCausalLM": Architecture(
        "count: StableLM-2-1.6B",
        norm_bias=True,
        output_bias=False,
        renamed=(("qkv_bias", "use_qkv_bias"),),
    ),
    "BaichuanForCausalLM": Architecture("count: Baichuan2-7B"),
    "FalconForCausalLM": Architecture(
        "count: Falcon-7B",
        gated=False,
        norms=1,
        norm_bias=True,
        tied=True,
        renamed=(("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer")),
    ),
    "GPT2LMHeadModel": Architecture(
        "count: GPT-2 XL",
        gated=False,
        norm_bias=True,
        tied=True,
        rotary=False,
        learned_positions=0,
        renamed=(
            ("hidden_size", "n_embd"),
            ("num_attention_heads", "n_head"),
            ("num_hidden_layers", "n_layer"),
            ("intermediate_size", "n_inner"),
            ("max_position_embeddings", "n_positions"),
        ),
        defaults=(("attention_bias", True), ("mlp_bias", True)),
    ),
    "GPTNeoXForCausalLM": Architecture(
        "count: GPT-NeoX-20B",
        gated=False,
        norm_bias=True,
        defaults=(("attention_bias", True), ("mlp_bias", True)),
        rotary=False,
    ),
    "OPTForCausalLM": Architecture(
        "count: OPT-6.7B",
        gated=False,
        norm_bias=True,
        tied=True,
        rotary=False,
        learned_positions=2,
        renamed=(
            ("intermediate_size", "ffn_dim"),
            ("attention_bias", "enable_bias"),
            ("mlp_bias", "enable_bias"),
        ),
        defaults=(("attention_bias", True), ("mlp_bias", True)),
    ),
    "HunYuanDenseV1ForCausalLM": Architecture(
        "module: hunyuan_v1 of vllm v0.11.0",
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        rotary=False,
    ),
    "Ernie4_5ForCausalLM": Architecture(
        "count: ERNIE-4.5-0.3B", renamed=(("attention_bias", "use_bias"), ("mlp_bias", "use_bias"))
    ),
    "GlmForCausalLM": Architecture("count: GLM-4-9B-chat-hf", output_bias=False, rotary=False),
    "Glm4ForCausalLM": Architecture("count: GLM-4-9B-0414", output_bias=False, norms=4),
    "Glm4vForConditionalGeneration": Architecture(
        "count: GLM-4.1V-9B",
        output_bias=False,
        norms=4,
        vision=Vision.GLM_4,
        positions_factor=4,
    ),
    "MiniCPM3ForCausalLM": Architecture(
        "allocation: MiniCPM3-4B", attention=Attention.LATENT, expands_latent=True, tied=True
    ),
    "Qwen2VLForConditionalGeneration": Architecture(
        "count: Qwen2-VL-7B",
        window_needs_switch=True,
        qkv_bias=True,
        output_bias=False,
        vision=Vision.QWEN2,
        positions_factor=4,
    ),
    "Qwen2_5_VLForConditionalGeneration": Architecture(
        "count: Qwen2.5-VL-7B",
        window_needs_switch=True,
        qkv_bias=True,
        output_bias=False,
        vision=Vision.QWEN2_5,
        positions_factor=4,
    ),
    "Qwen3VLForConditionalGeneration": replace(
        _QWEN3, evidence="allocation: Qwen3-VL-2B, 4B, 8B, 32B", vision=Vision.QWEN3
    ),
    "DeciLMForCausalLM": Architecture("count: Llama-3.3-Nemotron-Super-49B", family=Family.DECILM),
}
"""By `architectures[0]` of a config.json."""
