"""What an architecture's row says: where its layers depart from the common ones.

The common ones are Llama's: attention with separate K and V heads, a gated feed-forward of three
matrices, two norms per layer. A row says only what differs; a family has a rule of its own
(`weights.plans`). The rows are in `architectures.table`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Attention(StrEnum):
    """How a layer attends."""

    HEADS = "heads"
    LATENT = "latent"
    NONE = "none"


class Family(StrEnum):
    """Whose rule says what the layers of a model are made of."""

    COMMON = "common"
    GPT_OSS = "gpt-oss"
    QWEN_NEXT = "Qwen3-Next"
    GEMMA_4 = "Gemma-4"
    GEMMA_3N = "Gemma-3n"
    LLAMA_4 = "Llama-4"
    MIMO_V2 = "MiMo-V2"
    MINIMAX_M3 = "MiniMax-M3"
    STEP_3P5 = "Step-3.5"
    DECILM = "DeciLM"
    NEMOTRON_H = "Nemotron-H"
    DEEPSEEK_V4 = "DeepSeek-V4"
    GRANITE_HYBRID = "Granite-4 hybrid"
    JAMBA = "Jamba"
    BAMBA = "Bamba"
    FALCON_H1 = "Falcon-H1"
    MAMBA_1 = "Mamba"
    MAMBA_2 = "Mamba-2"
    ZAMBA_2 = "Zamba2"
    LFM_2 = "LFM2"
    KIMI_LINEAR = "Kimi-Linear"
    MINIMAX_TEXT = "MiniMax-Text-01"
    WHISPER = "Whisper"


class QkNorm(StrEnum):
    """What the norm of Q and K spans."""

    NONE = "none"
    HEAD = "head"
    ALL_HEADS = "all heads"


class Vision(StrEnum):
    """The vision tower that comes with the model."""

    NONE = ""
    QWEN2 = "Qwen2-VL"
    QWEN2_5 = "Qwen2.5-VL"
    QWEN3 = "Qwen3-VL"
    MOON_VIT = "MoonViT"
    MOON_VIT_VL = "MoonViT of Kimi-VL"
    GLM_4 = "GLM-4V"
    LLAMA_4 = "Llama-4"
    SIGLIP = "SigLIP"
    GEMMA_4 = "Gemma-4"
    PIXTRAL = "Pixtral"
    MINIMAX = "MiniMax-VL"


@dataclass(frozen=True, slots=True)
class MixtureKeys:
    """Keys of a mixture of experts.

    Attributes:
        experts: key of the number of routed experts; 0 or missing there means a dense model.
        width: key of one expert's intermediate size.
        chosen: key of the number of experts that a token uses.
        module: name of the block inside a layer ("mlp").
        shared: key of the number of shared experts, each as wide as a routed one; "" if none.
        shared_width: key of the intermediate size of a single shared expert; "" if there is none
            of that form.
        shared_gate: that one has a gate of its own.
        dense_first: key of the number of dense layers before the first mixture; "" if none.
        step: key of the distance between mixtures (1: every layer); "" if none.
        offset: what is added to a layer's index before it is divided by the step.
        offset_key: key of what is subtracted from it instead; "" if none.
        dense_list: key of a list of further dense layers; "" if none.
        layer_names: key of a list of "dense" and "sparse"; it wins where it is there.
        indices: key of the mixtures' indices, written with commas; it wins where it is there.
        router_dtype: format of the router where it is not the model's own; "" if it is.
        router_bias: the router has a bias.
        correction: each expert's score has a correction in fp32.
        expert: name of an expert's first matrix; "": as in a dense feed-forward.
        bias: the experts' matrices have biases.
        least: fewer experts than this are none.
    """

    experts: str
    width: str
    chosen: str = "num_experts_per_tok"
    module: str = "mlp"
    shared: str = ""
    shared_width: str = ""
    shared_gate: bool = False
    dense_first: str = ""
    step: str = ""
    offset: int = 0
    offset_key: str = ""
    dense_list: str = ""
    layer_names: str = ""
    indices: str = ""
    router_dtype: str = ""
    router_bias: bool = False
    correction: bool = False
    expert: str = ""
    bias: bool = False
    least: int = 1


@dataclass(frozen=True, slots=True)
class Architecture:
    """What is peculiar to one architecture.

    Attributes:
        evidence: what its rule was compared with.
        name: `architectures[0]` of a config.json; the table fills it in.
        family: whose rule says what its layers are made of.
        attention: how its layers attend.
        layers: key of the number of layers.
        renamed: pairs of a common key and this architecture's own name for it (with dots where
            it is nested).
        defaults: values of keys that a config may leave out.
        window_needs_switch: `sliding_window` counts only with `use_sliding_window`.
        qkv_bias: Q, K and V have a bias whatever `attention_bias` says.
        output_bias: `attention_bias` is said of the output projection too.
        qk_norm: the norm of Q and K.
        qk_norm_switch: key that switches it on; "" if it always is.
        norms: per layer.
        norm_bias: a norm has a bias beside its weight.
        norm_free: a norm has no weights at all.
        gated: the feed-forward has a gate, hence three matrices, not two.
        tied: the head is the embedding where `tie_word_embeddings` is not stated.
        head_bias: the head has a bias.
        mixture: keys of its experts; None for a dense model.
        vision: the vision tower.
        recurrent_module: name of the input matrix of its recurrent layers.
        rotary: the engine keeps a rotary table (its own modules do; transformers', which it runs
            for some architectures, compute the angles as they go).
        learned_positions: it has a table of learnt positions, with so many rows beside those of
            the longest sequence; None: it has none.
        gate_module: name of a matrix that gates every element of attention's output; "": none.
        expands_latent: MLA's latent is expanded before it is cached, so that nothing is absorbed.
        on_every_stage: which of "embedding" and "head" each pipeline stage builds; the others are
            only on the first and on the last.
        whole_embedding: each rank of tensor parallelism holds the embedding whole and unpadded.
        positions_factor: how many times longer that of text and images is (mrope.py).
    """

    evidence: str
    name: str = ""
    family: Family = Family.COMMON
    attention: Attention = Attention.HEADS
    layers: str = "num_hidden_layers"
    renamed: tuple[tuple[str, str], ...] = ()
    defaults: tuple[tuple[str, int | bool | str], ...] = ()
    window_needs_switch: bool = False
    qkv_bias: bool = False
    output_bias: bool = True
    qk_norm: QkNorm = QkNorm.NONE
    qk_norm_switch: str = ""
    norms: int = 2
    norm_bias: bool = False
    norm_free: bool = False
    gated: bool = True
    tied: bool = False
    head_bias: bool = False
    mixture: MixtureKeys | None = None
    vision: Vision = Vision.NONE
    recurrent_module: str = ""
    rotary: bool = True
    learned_positions: int | None = None
    gate_module: str = ""
    expands_latent: bool = False
    on_every_stage: tuple[str, ...] = ()
    whole_embedding: bool = False
    positions_factor: int = 1
