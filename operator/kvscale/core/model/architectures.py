"""The architectures whose layers are known, and where each departs from the common one.

The common one is Llama's: attention with separate K and V heads, a gated feed-forward of three
matrices, two norms per layer. A row says only what differs. An architecture without a row is
refused by name: its layers may keep another kind of past.

Evidence: `allocation` rows were compared with what vLLM 0.32.0 allocates for a config of that
architecture (weights per rank, pages, blocks); `count` rows with the published parameter count.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class Attention(StrEnum):
    """How a layer attends."""

    HEADS = "heads"
    LATENT = "latent"


class QkNorm(StrEnum):
    """What the norm of Q and K spans."""

    NONE = "none"
    HEAD = "head"
    ALL_HEADS = "all heads"


class Vision(StrEnum):
    """The vision tower that comes with the model."""

    NONE = ""
    QWEN3 = "Qwen3-VL"
    MOON_VIT = "MoonViT"


@dataclass(frozen=True, slots=True)
class Mixture:
    """Keys of a mixture of experts.

    Attributes:
        experts: key of the number of routed experts; 0 or missing there means a dense model.
        width: key of one expert's intermediate size.
        module: name of the block inside a layer ("mlp").
        shared: key of the number of shared experts, each as wide as a routed one; "" if none.
        shared_width: key of the intermediate size of a single shared expert, which has a gate of
            its own; "" if there is none of that form.
        dense_first: key of the number of dense layers before the first mixture; "" if none.
        step: key of the distance between mixtures (1: every layer); "" if none.
        dense_list: key of a list of further dense layers; "" if none.
        router_dtype: format of the router where it is not the model's own; "" if it is.
    """

    experts: str
    width: str
    module: str = "mlp"
    shared: str = ""
    shared_width: str = ""
    dense_first: str = ""
    step: str = ""
    dense_list: str = ""
    router_dtype: str = ""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What is peculiar to one architecture.

    Attributes:
        evidence: what its rule was compared with.
        attention: how its layers attend.
        layers: key of the number of layers.
        window_needs_switch: `sliding_window` counts only with `use_sliding_window`.
        qkv_bias: Q, K and V have a bias whatever `attention_bias` says.
        output_bias: `attention_bias` is said of the output projection too.
        qk_norm: the norm of Q and K.
        qk_norm_switch: key that switches it on; "" if it always is.
        norms: per layer.
        norm_bias: a norm has a bias beside its weight.
        gated: the feed-forward has a gate, hence three matrices, not two.
        tied: the head is the embedding where `tie_word_embeddings` is not stated.
        mixture: keys of its experts; None for a dense model.
        vision: the vision tower.
    """

    evidence: str
    attention: Attention = Attention.HEADS
    layers: str = "num_hidden_layers"
    window_needs_switch: bool = False
    qkv_bias: bool = False
    output_bias: bool = True
    qk_norm: QkNorm = QkNorm.NONE
    qk_norm_switch: str = ""
    norms: int = 2
    norm_bias: bool = False
    gated: bool = True
    tied: bool = False
    mixture: Mixture | None = None
    vision: Vision = Vision.NONE


_DEEPSEEK = Mixture(
    experts="n_routed_experts",
    width="moe_intermediate_size",
    shared="n_shared_experts",
    dense_first="first_k_dense_replace",
    step="moe_layer_freq",
)
_QWEN = Mixture(
    experts="num_experts",
    width="moe_intermediate_size",
    step="decoder_sparse_step",
    dense_list="mlp_only_layers",
)
_MIXTRAL = Mixture("num_local_experts", "intermediate_size", module="block_sparse_moe")
_MINIMAX = Mixture(
    "num_local_experts",
    "intermediate_size",
    module="block_sparse_moe",
    router_dtype="float32",
)

ARCHITECTURES = {
    "LlamaForCausalLM": Architecture("allocation: Llama-3.1-8B, 70B, 405B"),
    "MistralForCausalLM": Architecture("count: Mistral-7B-v0.3"),
    "Qwen2ForCausalLM": Architecture(
        "count: Qwen2.5-7B, 72B", window_needs_switch=True, qkv_bias=True
    ),
    "Qwen3ForCausalLM": Architecture(
        "allocation: Qwen3-8B, 32B", window_needs_switch=True, qk_norm=QkNorm.HEAD
    ),
    "Phi3ForCausalLM": Architecture("count: Phi-4, Phi-4-mini"),
    "InternLM2ForCausalLM": Architecture("count: InternLM2.5-7B"),
    "InternLM3ForCausalLM": Architecture("count: InternLM3-8B"),
    "GraniteForCausalLM": Architecture("count: Granite-3.1-2B, 8B"),
    "ExaoneForCausalLM": Architecture("count: EXAONE-3.0-7.8B", layers="num_layers"),
    "SmolLM3ForCausalLM": Architecture("count: SmolLM3-3B", window_needs_switch=True, tied=True),
    "Olmo2ForCausalLM": Architecture("count: OLMo-2-7B, 13B", qk_norm=QkNorm.ALL_HEADS),
    "GemmaForCausalLM": Architecture("count: Gemma-2B, 7B", tied=True),
    "CohereForCausalLM": Architecture(
        "count: Command-R, Command-R+",
        qk_norm=QkNorm.ALL_HEADS,
        qk_norm_switch="use_qk_norm",
        norms=1,
        tied=True,
    ),
    "NemotronForCausalLM": Architecture("count: Nemotron-Mini-4B", norm_bias=True, gated=False),
    "GlmForCausalLM": Architecture("count: GLM-4-9B-chat-hf", output_bias=False),
    "Glm4ForCausalLM": Architecture("count: GLM-4-9B-0414", output_bias=False, norms=4),
    "MixtralForCausalLM": Architecture("allocation: Mixtral-8x22B", mixture=_MIXTRAL),
    "Qwen3MoeForCausalLM": Architecture(
        "allocation: Qwen3-30B-A3B, 235B-A22B, Coder-480B-A35B",
        window_needs_switch=True,
        qk_norm=QkNorm.HEAD,
        mixture=_QWEN,
    ),
    "Qwen2MoeForCausalLM": Architecture(
        "count: Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
        window_needs_switch=True,
        qkv_bias=True,
        mixture=replace(_QWEN, shared_width="shared_expert_intermediate_size"),
    ),
    "Glm4MoeForCausalLM": Architecture(
        "count: GLM-4.5, GLM-4.5-Air",
        output_bias=False,
        qk_norm=QkNorm.HEAD,
        qk_norm_switch="use_qk_norm",
        mixture=replace(_DEEPSEEK, router_dtype="float32"),
    ),
    "MiniMaxM2ForCausalLM": Architecture(
        "allocation: MiniMax-M2.5, M2.7", qk_norm=QkNorm.ALL_HEADS, mixture=_MINIMAX
    ),
    "DeepseekV2ForCausalLM": Architecture(
        "count: DeepSeek-V2-Lite", attention=Attention.LATENT, mixture=_DEEPSEEK
    ),
    "DeepseekV3ForCausalLM": Architecture(
        "allocation: DeepSeek-V3", attention=Attention.LATENT, mixture=_DEEPSEEK
    ),
    "Qwen3VLForConditionalGeneration": Architecture(
        "allocation: Qwen3-VL-2B, 4B, 8B, 32B",
        window_needs_switch=True,
        qk_norm=QkNorm.HEAD,
        vision=Vision.QWEN3,
    ),
    "KimiK25ForConditionalGeneration": Architecture(
        "allocation: Kimi-K2.5, K2.6, K2.7",
        attention=Attention.LATENT,
        mixture=_DEEPSEEK,
        vision=Vision.MOON_VIT,
    ),
}
