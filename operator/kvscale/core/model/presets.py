"""Models that people serve, by name: the numbers of their public config.json.

Each is read by the same `read_shape` as a config.json of one's own. Names are Hugging Face's; a
model's -Instruct, -Chat or -Base sibling has the same shape and is an alias. A quantised sibling
("...-FP8") is not: its weights have another size, and it is listed only where its own config is.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape

MOST_CHARACTERS = 200
PROPOSALS = 3


@dataclass(frozen=True, slots=True)
class _Entry:
    """A model of the catalogue.

    Attributes:
        name: its own name.
        aliases: names of siblings with the same shape.
        source: where the numbers are from.
        config: the keys of config.json that the shape depends on.
    """

    name: str
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]


def _config(architecture: str, numbers: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A config: layers, hidden, heads, KV heads, feed-forward, vocabulary, length; and more."""
    keys = (
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    )
    named = dict(zip(keys, numbers, strict=True))
    return {"architectures": [architecture], "torch_dtype": "bfloat16", **named, **more}


def _llama(*numbers: int, **more: Any) -> dict[str, Any]:
    return _config("LlamaForCausalLM", numbers, **more)


def _siblings(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}-Instruct" for name in names)


_HUB = "config.json of the model on Hugging Face"
_COUNTED = "copies of the config.json in public code; the parameter count equals the published one"
_QWEN3 = {"head_dim": 128, "use_sliding_window": False}
_QWEN3_MOE = {
    **_QWEN3, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
_DEEPSEEK = {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}

_ENTRIES = (
    _Entry(
        "meta-llama/Llama-3.1-8B",
        (
            *_siblings("meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"),
            "meta-llama/Meta-Llama-3.1-8B",
        ),
        _HUB,
        _llama(32, 4096, 32, 8, 14336, 128256, 131072),
    ),
    _Entry(
        "meta-llama/Llama-3.1-70B",
        (
            *_siblings("meta-llama/Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-70B"),
            "meta-llama/Meta-Llama-3.1-70B",
        ),
        _HUB,
        _llama(80, 8192, 64, 8, 28672, 128256, 131072),
    ),
    _Entry(
        "meta-llama/Llama-3.1-405B",
        (
            *_siblings("meta-llama/Llama-3.1-405B", "meta-llama/Meta-Llama-3.1-405B"),
            "meta-llama/Meta-Llama-3.1-405B",
        ),
        _HUB,
        _llama(126, 16384, 128, 8, 53248, 128256, 131072),
    ),
    _Entry(
        "meta-llama/Llama-3.2-1B",
        _siblings("meta-llama/Llama-3.2-1B"),
        _COUNTED,
        _llama(16, 2048, 32, 8, 8192, 128256, 131072, head_dim=64, tie_word_embeddings=True),
    ),
    _Entry(
        "meta-llama/Llama-3.2-3B",
        _siblings("meta-llama/Llama-3.2-3B"),
        _COUNTED,
        _llama(28, 3072, 24, 8, 8192, 128256, 131072, head_dim=128, tie_word_embeddings=True),
    ),
    _Entry(
        "meta-llama/Llama-3.3-70B-Instruct",
        (),
        "ai-dynamo/aiconfigurator src/aiconfigurator/model_configs (Apache-2.0)",
        _llama(80, 8192, 64, 8, 28672, 128256, 131072),
    ),
    _Entry(
        "Qwen/Qwen3-8B",
        (),
        _HUB,
        _config("Qwen3ForCausalLM", (36, 4096, 32, 8, 12288, 151936, 40960), **_QWEN3),
    ),
    _Entry(
        "Qwen/Qwen3-32B",
        (),
        _HUB,
        _config("Qwen3ForCausalLM", (64, 5120, 64, 8, 25600, 151936, 40960), **_QWEN3),
    ),
    _Entry(
        "Qwen/Qwen3-30B-A3B",
        (),
        _HUB,
        _config(
            "Qwen3MoeForCausalLM", (48, 2048, 32, 4, 6144, 151936, 40960),
            num_experts=128, moe_intermediate_size=768, **_QWEN3_MOE,
        ),
    ),
    _Entry(
        "Qwen/Qwen3-235B-A22B",
        (),
        _HUB,
        _config(
            "Qwen3MoeForCausalLM", (94, 4096, 64, 4, 12288, 151936, 40960),
            num_experts=128, moe_intermediate_size=1536, **_QWEN3_MOE,
        ),
    ),
    _Entry(
        "Qwen/Qwen2.5-7B-Instruct",
        (),
        _COUNTED,
        _config("Qwen2ForCausalLM", (28, 3584, 28, 4, 18944, 152064, 32768)),
    ),
    _Entry(
        "Qwen/Qwen2.5-72B-Instruct",
        (),
        _COUNTED,
        _config("Qwen2ForCausalLM", (80, 8192, 64, 8, 29568, 152064, 32768)),
    ),
    _Entry(
        "mistralai/Mistral-7B-v0.3",
        ("mistralai/Mistral-7B-Instruct-v0.3",),
        _COUNTED,
        _config("MistralForCausalLM", (32, 4096, 32, 8, 14336, 32768, 32768)),
    ),
    _Entry(
        "mistralai/Mixtral-8x7B-v0.1",
        ("mistralai/Mixtral-8x7B-Instruct-v0.1",),
        _COUNTED,
        _config(
            "MixtralForCausalLM", (32, 4096, 32, 8, 14336, 32000, 32768),
            num_local_experts=8, num_experts_per_tok=2,
        ),
    ),
    _Entry(
        "mistralai/Mixtral-8x22B-v0.1",
        (),
        _HUB,
        _config(
            "MixtralForCausalLM", (56, 6144, 48, 8, 16384, 32000, 65536),
            num_local_experts=8, num_experts_per_tok=2,
        ),
    ),
    _Entry(
        "deepseek-ai/DeepSeek-V3",
        (
            "deepseek-ai/DeepSeek-V3-Base",
            "deepseek-ai/DeepSeek-V3-0324",
            "deepseek-ai/DeepSeek-R1",
            "deepseek-ai/DeepSeek-R1-0528",
        ),
        _HUB,
        _config(
            "DeepseekV3ForCausalLM", (61, 7168, 128, 128, 18432, 129280, 163840), **_DEEPSEEK
        ),
    ),
)  # fmt: skip

_BY_NAME = {
    name.lower(): (name, entry) for entry in _ENTRIES for name in (entry.name, *entry.aliases)
}

PRESET_NAMES: tuple[str, ...] = tuple(name for name, _ in _BY_NAME.values())
"""Every name that `preset` knows, aliases included."""


@lru_cache(maxsize=256)
def preset(name: str) -> ModelShape | Refusal:
    """The shape of a model of the catalogue.

    Args:
        name: its Hugging Face name, in any case.

    Returns:
        The shape, or a Refusal that proposes the names closest to it.
    """
    found = _BY_NAME.get(name.strip().lower()) if len(name) <= MOST_CHARACTERS else None
    if found is not None:
        return read_shape(found[1].config, found[0])
    close = get_close_matches(
        name[:MOST_CHARACTERS].strip().lower(), list(_BY_NAME), n=PROPOSALS, cutoff=0.5
    )
    proposed = ", ".join(_BY_NAME[match][0] for match in close)
    hint = f"did you mean {proposed}? Otherwise g" if proposed else "g"
    return Refusal(
        "UnknownPreset",
        "model.preset",
        f"no preset is called {name[:60]!r}; {hint}ive the model's config.json in "
        "model.configMapRef, or its numbers in model.shape",
    )


def preset_source(name: str) -> str:
    """Where the numbers of a preset are from; "" for a name that is none."""
    found = _BY_NAME.get(name.strip().lower())
    return found[1].source if found is not None else ""
