"""Published parameter counts of models whose layers differ, met to the digit.

The dimensions are those of the models' config.json on Hugging Face, from copies in public code or
recalled; the counts are recalled from the model pages (safetensors metadata). The counts of the
presets are in ../test_presets.py.
"""

from typing import Any

import pytest

from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.checkpoint.quantization import NONE
from kvscale.core.model.fields import Fields
from kvscale.core.model.weights.dimensions import read_dimensions
from kvscale.core.model.weights.groups import padded_vocabulary, weight_groups
from kvscale.core.model.weights.vision.table import vision_groups

KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "vocab_size",
)  # fmt: skip
SIGLIP = {
    "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
    "num_hidden_layers": 27, "patch_size": 14,
}  # fmt: skip
GRANITE = {
    "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_head": 64, "mamba_expand": 2,
    "tie_word_embeddings": True,
    "layer_types": ["attention" if n in {5, 15, 25, 35} else "mamba" for n in range(40)],
}  # fmt: skip
LFM2_MOE_FULL = {2, 6, 10, 14, 18, 21}


def gemma3(layers: int, hidden: int, width: int, **more: Any) -> dict[str, Any]:
    text = {
        "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": width,
        "vocab_size": 262208,
    }  # fmt: skip
    return {"text_config": text | more, "vision_config": SIGLIP}


CASES: dict[str, tuple[str, tuple[int, ...], dict[str, Any], int]] = {
    "Gemma-2-27B": (
        "Gemma2ForCausalLM", (46, 4608, 32, 16, 36864, 256000), {"head_dim": 128}, 27227128320
    ),
    "Gemma-3-1B": (
        "Gemma3ForCausalLM", (26, 1152, 4, 1, 6912, 262144), {"head_dim": 256}, 999885952
    ),
    "Gemma-3-12B": (
        "Gemma3ForConditionalGeneration", (),
        gemma3(48, 3840, 15360, num_attention_heads=16, num_key_value_heads=8), 12187325040,
    ),
    "Gemma-3-27B": (
        "Gemma3ForConditionalGeneration", (),
        gemma3(62, 5376, 21504, num_attention_heads=32, num_key_value_heads=16, head_dim=128),
        27432406640,
    ),
    "StarCoder2-3B": (
        "Starcoder2ForCausalLM", (30, 3072, 24, 2, 12288, 49152), {"use_bias": True}, 3030371328
    ),
    "StarCoder2-7B": ("Starcoder2ForCausalLM", (32, 4608, 36, 4, 18432, 49152), {}, 7173923840),
    "StarCoder2-15B": (
        "Starcoder2ForCausalLM", (40, 6144, 48, 4, 24576, 49152), {"tie_word_embeddings": False},
        15957889024,
    ),
    "Phi-3.5-MoE": (
        "PhiMoEForCausalLM", (32, 4096, 32, 8, 6400, 32064),
        {"num_local_experts": 16, "num_experts_per_tok": 2, "attention_bias": True}, 41873153344,
    ),
    "Jamba-v0.1": (
        "JambaForCausalLM", (32, 4096, 32, 8, 14336, 65536),
        {
            "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2,
            "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
            "mamba_dt_rank": 256,
        },
        51570323328,
    ),
    "Falcon-Mamba-7B": (
        "FalconMambaForCausalLM", (64, 4096, 1, 1, 8192, 65024),
        {"state_size": 16, "time_step_rank": 256, "tie_word_embeddings": False}, 7272665088,
    ),
    "Mamba-2.8B": (
        "MambaForCausalLM", (64, 2560, 1, 1, 5120, 50280), {"time_step_rank": 160}, 2768345600
    ),
    "Mamba-2-2.7B": (
        "Mamba2ForCausalLM", (64, 2560, 1, 1, 5120, 50288),
        {"num_heads": 80, "n_groups": 1, "tie_word_embeddings": True}, 2702599680,
    ),
    "Mamba-Codestral-7B": (
        "Mamba2ForCausalLM", (64, 4096, 1, 1, 8192, 32768), {"num_heads": 128}, 7285403648
    ),
    "DBRX": (
        "DbrxForCausalLM", (),
        {
            "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
            "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        131596523520,
    ),
    "Falcon-7B": (
        "FalconForCausalLM", (),
        {
            "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71,
            "vocab_size": 65024, "multi_query": True, "tie_word_embeddings": True,
        },
        6921720704,
    ),
    "Falcon-40B": (
        "FalconForCausalLM", (),
        {
            "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128,
            "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True,
        },
        41303293952,
    ),
    "GPT-2 XL": (
        "GPT2LMHeadModel", (),
        {
            "n_embd": 1600, "n_head": 25, "n_layer": 48, "n_positions": 1024,
            "max_position_embeddings": None, "vocab_size": 50257,
        },
        1557611200,
    ),
    "GPT-NeoX-20B": (
        "GPTNeoXForCausalLM", (44, 6144, 64, 64, 24576, 50432), {"rotary_pct": 0.25}, 20554567680
    ),
    "OPT-6.7B": (
        "OPTForCausalLM", (),
        {
            "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "ffn_dim": 16384, "vocab_size": 50272, "max_position_embeddings": 2048,
        },
        6658473984,
    ),
    # The engine gives K a bias too, in 64 self-attentions and 32 cross-attentions.
    "Whisper-large-v3": (
        "WhisperForConditionalGeneration", (),
        {
            "d_model": 1280, "decoder_attention_heads": 20, "decoder_layers": 32,
            "decoder_ffn_dim": 5120, "encoder_layers": 32, "num_mel_bins": 128,
            "max_target_positions": 448, "vocab_size": 51866,
        },
        1543490560 + 96 * 1280,
    ),
    "Hunyuan-A13B": (
        "HunYuanMoEV1ForCausalLM", (32, 4096, 32, 8, 3072, 128167),
        {
            "num_experts": 64, "moe_topk": [8] * 32, "num_shared_expert": [1] * 32,
            "moe_intermediate_size": [3072] * 32, "head_dim": 128, "use_qk_norm": True,
            "tie_word_embeddings": True,
        },
        80393183232,
    ),
    "LFM2-1.2B": (
        "Lfm2ForCausalLM", (16, 2048, 32, 8, 12288, 65536),
        {"full_attn_idxs": [2, 5, 8, 10, 12, 14], "block_ff_dim": 12288}, 1170340608,
    ),
    "LFM2-8B-A1B": (
        "Lfm2MoeForCausalLM", (24, 2048, 32, 8, 7168, 65536),
        {
            "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792,
            "num_dense_layers": 2,
            "layer_types": [
                "full_attention" if n in LFM2_MOE_FULL else "conv" for n in range(24)
            ],
        },
        8339929856,
    ),
    "MiniMax-Text-01": (
        "MiniMaxText01ForCausalLM", (80, 6144, 64, 8, 9216, 200064),
        {
            "head_dim": 128, "num_local_experts": 32, "num_experts_per_tok": 2,
            "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
        },
        456089655296,
    ),
    "Seed-OSS-36B": (
        "SeedOssForCausalLM", (64, 5120, 80, 8, 27648, 155136),
        {"head_dim": 128, "attention_bias": True}, 36151104512,
    ),
    "ERNIE-4.5-0.3B": (
        "Ernie4_5ForCausalLM", (18, 1024, 16, 2, 3072, 103424),
        {"head_dim": 128, "tie_word_embeddings": True}, 360748032,
    ),
    # Less the corrections of the experts' scores: 27 layers of 64 experts.
    "ERNIE-4.5-21B-A3B": (
        "Ernie4_5_MoeForCausalLM", (28, 2560, 20, 4, 12288, 103424),
        {
            "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536,
            "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "tie_word_embeddings": True,
        },
        21825437888 - 27 * 64,
    ),
    # Less the corrections of the experts' scores: 26 layers of 256 experts.
    "Kimi-Linear-48B-A3B": (
        "KimiLinearForCausalLM", (27, 2304, 32, 32, 9216, 163840),
        {
            "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "num_experts": 256, "num_experts_per_token": 8,
            "moe_intermediate_size": 1024, "num_shared_experts": 1, "first_k_dense_replace": 1,
            "linear_attn_config": {
                "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
                "kda_layers": [n for n in range(1, 27) if n % 4],
            },
        },
        49122681728 - 26 * 256,
    ),
    # Less what its activation learns: two numbers per layer.
    "Apertus-8B": ("ApertusForCausalLM", (32, 4096, 32, 8, 21504, 131072), {}, 8053338176 - 2 * 32),
    "Baichuan2-7B": ("BaichuanForCausalLM", (32, 4096, 32, 32, 11008, 125696), {}, 7505973248),
    "StableLM-2-1.6B": (
        "StableLmForCausalLM", (24, 2048, 32, 32, 5632, 100352), {"use_qkv_bias": True}, 1644515328
    ),
    "Command-R7B": ("Cohere2ForCausalLM", (32, 4096, 32, 8, 14336, 256000), {}, 8028033024),
    "Command-A": ("Cohere2ForCausalLM", (64, 12288, 96, 8, 36864, 256000), {}, 111057580032),
    "EXAONE-4.0-32B": ("Exaone4ForCausalLM", (64, 5120, 40, 8, 27392, 102400), {}, 32003216384),
    "EXAONE-4.0-1.2B": (
        "Exaone4ForCausalLM", (30, 2048, 32, 8, 4096, 102400), {"tie_word_embeddings": True},
        1279391488,
    ),
    "OLMo-3-7B": ("Olmo3ForCausalLM", (32, 4096, 32, 32, 11008, 100278), {}, 7298011136),
    "OLMo-3-32B": ("Olmo3ForCausalLM", (64, 5120, 40, 8, 27648, 100278), {}, 32233522176),
    "OLMoE-1B-7B": (
        "OlmoeForCausalLM", (16, 2048, 16, 16, 1024, 50304),
        {"num_experts": 64, "num_experts_per_tok": 8}, 6919161856,
    ),
    "Granite-4.0-H-Tiny": (
        "GraniteMoeHybridForCausalLM", (40, 1536, 12, 4, 512, 100352),
        {
            **GRANITE, "num_local_experts": 64, "num_experts_per_tok": 6,
            "shared_intermediate_size": 1024, "mamba_n_heads": 48,
        },
        6939037248,
    ),
    "Granite-4.0-H-Small": (
        "GraniteMoeHybridForCausalLM", (40, 4096, 32, 8, 768, 100352),
        {
            **GRANITE, "num_local_experts": 72, "num_experts_per_tok": 10,
            "shared_intermediate_size": 1536, "mamba_n_heads": 128,
        },
        32207337984,
    ),
    "Qwen3-Next-80B-A3B, without its draft layer": (
        "Qwen3NextForCausalLM", (48, 2048, 16, 2, 5120, 151936),
        {
            "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10,
            "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
            "full_attention_interval": 4,
        },
        79674391296,
    ),
    "Qwen2.5-VL-7B": (
        "Qwen2_5_VLForConditionalGeneration", (28, 3584, 28, 4, 18944, 152064),
        {"vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420}},
        8292166656,
    ),
    "Qwen2-VL-7B": (
        "Qwen2VLForConditionalGeneration", (28, 3584, 28, 4, 18944, 152064),
        {"vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 3584}}, 8291375616,
    ),
    "GLM-4.1V-9B-Thinking": (
        "Glm4vForConditionalGeneration", (40, 4096, 32, 2, 13696, 151552),
        {
            "attention_bias": True, "head_dim": 128,
            "vision_config": {
                "depth": 24, "hidden_size": 1536, "intermediate_size": 13696,
                "out_hidden_size": 4096, "num_heads": 12, "image_size": 336, "patch_size": 14,
            },
        },
        10292777472,
    ),
    # Less the corrections of the experts' scores: 45 layers of 128 experts.
    "GLM-4.5V": (
        "Glm4vMoeForConditionalGeneration", (46, 4096, 96, 8, 10944, 151552),
        {
            "head_dim": 128, "attention_bias": True, "n_routed_experts": 128,
            "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 1408,
            "first_k_dense_replace": 1,
            "vision_config": {
                "depth": 24, "hidden_size": 1536, "intermediate_size": 10944,
                "out_hidden_size": 4096, "num_heads": 12, "image_size": 336, "patch_size": 14,
            },
        },
        107710933120 - 45 * 128,
    ),
    "Mistral-Small-3.1-24B": (
        "Mistral3ForConditionalGeneration", (),
        {
            "spatial_merge_size": 2,
            "text_config": dict(zip(KEYS, (40, 5120, 32, 8, 32768, 131072), strict=True))
            | {"head_dim": 128},
            "vision_config": {
                "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        24011361280,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_parameter_count_is_the_published_one(name: str) -> None:
    label, numbers, more, published = CASES[name]
    config = dict(zip(KEYS, numbers, strict=True)) if numbers else {}
    top = Fields({"max_position_embeddings": 4096} | config | more)
    text = top.child("text_config") or top
    architecture = ARCHITECTURES[label]
    d = read_dimensions(text, top, architecture, "bfloat16")
    groups = (
        *weight_groups(d, architecture, NONE),
        *vision_groups(architecture.vision, top, "bfloat16"),
    )
    matrices = 1 if d.tied else 2
    rows = 0 if architecture.whole_embedding else padded_vocabulary(d.vocabulary) - d.vocabulary
    padding = matrices * rows * d.hidden
    assert sum(g.parameters for g in groups if not g.buffer) - padding == published


def test_a_latent_that_is_expanded_before_it_is_cached_leaves_no_copy() -> None:
    config = dict(zip(KEYS, (62, 2560, 40, 40, 6400, 73448), strict=True)) | {
        "kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
    }  # fmt: skip
    architecture = ARCHITECTURES["MiniCPM3ForCausalLM"]
    d = read_dimensions(Fields(config), Fields(config), architecture, "bfloat16")
    assert (d.latent, d.kv_heads, d.head_dim) == (None, 40, 64 + 32)
    assert not any(group.derived for group in weight_groups(d, architecture, NONE))
