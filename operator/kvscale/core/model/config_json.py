"""Reading a Hugging Face config.json into a ModelShape."""

from collections.abc import Mapping
from typing import Any

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.model.architectures import ARCHITECTURES, Architecture, Attention
from kvscale.core.model.dtypes import BITS, canonical
from kvscale.core.model.fields import Fields, Refused, shown
from kvscale.core.model.layer_kinds import (
    MOST_LAYERS,
    refuse_sliding_window,
    refuse_unsupported_layers,
)
from kvscale.core.model.quantization import read_quantization
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape
from kvscale.core.model.vision import vision_groups
from kvscale.core.model.weights import Dimensions, Experts, Latent, weight_groups

MOST_WIDTH = 1 << 20
MOST_HEADS = 1 << 14
MOST_HEAD_DIM = 1 << 14
MOST_VOCABULARY = 1 << 26
MOST_EXPERTS = 1 << 14
MOST_POSITIONS = 1 << 31
MOST_ROPE_FACTOR = 1 << 20

_OWN_LENGTH = ("su", "longrope", "llama3")
"""Rope types whose `max_position_embeddings` already counts the scaling."""


def read_shape(
    config: Mapping[str, Any], name: str = "", quantization: Mapping[str, Any] | None = None
) -> ModelShape | Refusal:
    """The shape of the model that a config.json describes.

    Args:
        config: the config.json, decoded.
        name: how the user calls the model.
        quantization: hf_quant_config.json, decoded; read only where the config itself says
            nothing of quantisation, as the engine does.

    Returns:
        The shape, or why there is none: `UnsupportedLayerKind`, `UnknownArchitecture`,
        `UnsupportedQuantization` or `InvalidConfig`, with the key at fault.
    """
    try:
        return _read(config, name, quantization)
    except Refused as refused:
        return refused.refusal


def _read(
    config: Mapping[str, Any], name: str, quantization: Mapping[str, Any] | None
) -> ModelShape:
    if not isinstance(config, Mapping):
        raise Refused(
            "InvalidConfig", "config.json", f"config.json is {shown(config)}; it must be an object"
        )
    top = Fields(config)
    text = top.child("text_config") or top
    refuse_unsupported_layers(top)
    if text is not top:
        refuse_unsupported_layers(text)
    label, architecture = _architecture(top)
    dtype = _dtype(top, text)
    dimensions = _dimensions(text, top, architecture, dtype)
    refuse_sliding_window(text, dimensions.layers, needs_switch=architecture.window_needs_switch)
    stored = read_quantization(_quantization_fields(top, text, quantization))
    return ModelShape(
        name=name,
        architecture=label,
        hidden_size=dimensions.hidden,
        vocabulary_size=dimensions.vocabulary,
        attention_heads=dimensions.heads,
        layer_groups=(_layer_group(dimensions),),
        weight_groups=(
            *weight_groups(dimensions, architecture, stored),
            *vision_groups(architecture.vision, top, dtype),
        ),
        max_position_embeddings=_longest(text),
        kv_cache_dtype=stored.kv_cache or dtype,
        dtype=dtype,
        quantization=stored.method,
        feed_forward_width=_widest(dimensions),
    )


def _architecture(top: Fields) -> tuple[str, Architecture]:
    names = top.items("architectures", 100)
    label = names[0] if names else None
    if not isinstance(label, str) or label not in ARCHITECTURES:
        raise Refused(
            "UnknownArchitecture",
            "architectures",
            f"architectures[0] is {shown(label)}; known are {', '.join(ARCHITECTURES)}. "
            "Declare the model by model.shape instead",
        )
    return label, ARCHITECTURES[label]


def _dtype(top: Fields, text: Fields) -> str:
    """Format of the activations; what is stored in fp32 is served in bf16."""
    for fields in (text, top):
        for key in ("dtype", "torch_dtype"):
            if fields.has(key):
                dtype = canonical(fields.text(key))
                if dtype not in BITS:
                    raise Refused(
                        "InvalidConfig",
                        fields.path + key,
                        f"{fields.path}{key} is {shown(dtype)}; use one of {', '.join(BITS)}",
                    )
                return "bfloat16" if dtype == "float32" else dtype
    return "bfloat16"


def _quantization_fields(
    top: Fields, text: Fields, beside: Mapping[str, Any] | None
) -> Fields | None:
    for fields in (top, text):
        for key in ("quantization_config", "compression_config"):
            found = fields.child(key)
            if found is not None:
                return found
    if beside is None:
        return None
    file = Fields({"hf_quant_config": beside}).child("hf_quant_config")
    return file.child("quantization") if file is not None else None


def _dimensions(text: Fields, top: Fields, architecture: Architecture, dtype: str) -> Dimensions:
    layers = text.integer("num_hidden_layers", 1, MOST_LAYERS)
    hidden = text.integer("hidden_size", 1, MOST_WIDTH)
    heads = text.integer("num_attention_heads", 1, MOST_HEADS)
    latent = _latent(text) if architecture.attention is Attention.LATENT else None
    kv_heads, head_dim = 1, 1
    if latent is None:
        kv_heads = text.integer("num_key_value_heads", 1, MOST_HEADS, default=heads)
        head_dim = _head_dim(text, hidden, heads)
        if heads % kv_heads:
            raise Refused(
                "InvalidConfig",
                f"{text.path}num_key_value_heads",
                f"{text.path}num_key_value_heads is {kv_heads}; it must divide "
                f"num_attention_heads, which is {heads}",
            )
    experts = _experts(text, architecture, layers)
    tied = top.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings"))
    bias = text.flag("attention_bias")
    return Dimensions(
        layers=layers,
        hidden=hidden,
        vocabulary=text.integer("vocab_size", 1, MOST_VOCABULARY),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        width=_dense_width(text, experts, layers),
        tied=tied,
        qkv_bias=bias or architecture.qkv_bias,
        output_bias=bias,
        mlp_bias=text.flag("mlp_bias"),
        rotary_elements=_rotary_elements(text, latent, head_dim),
        latent=latent,
        experts=experts,
        dtype=dtype,
    )


def _head_dim(text: Fields, hidden: int, heads: int) -> int:
    if text.has("head_dim"):
        return text.integer("head_dim", 1, MOST_HEAD_DIM)
    if hidden % heads:
        raise Refused(
            "InvalidConfig",
            f"{text.path}head_dim",
            f"{text.path}head_dim is missing and hidden_size {hidden} is no multiple of "
            f"num_attention_heads {heads}; set head_dim",
        )
    return hidden // heads


def _latent(text: Fields) -> Latent:
    return Latent(
        q_rank=text.integer("q_lora_rank", 0, MOST_WIDTH, default=0),
        kv_rank=text.integer("kv_lora_rank", 1, MOST_WIDTH),
        rope=text.integer("qk_rope_head_dim", 1, MOST_HEAD_DIM),
        nope=text.integer("qk_nope_head_dim", 1, MOST_HEAD_DIM),
        value=text.integer("v_head_dim", 1, MOST_HEAD_DIM),
    )


def _experts(text: Fields, architecture: Architecture, layers: int) -> Experts | None:
    keys = architecture.mixture
    if keys is None:
        return None
    count = text.integer(keys.experts, 0, MOST_EXPERTS, default=0)
    if count == 0:
        return None
    width = text.integer(keys.width, 1, MOST_WIDTH)
    shared = text.integer(keys.shared, 0, 1_000, default=0) if keys.shared else 0
    first = text.integer(keys.dense_first, 0, MOST_LAYERS, default=0) if keys.dense_first else 0
    step = text.integer(keys.step, 1, MOST_LAYERS, default=1) if keys.step else 1
    dense = text.items(keys.dense_list, MOST_LAYERS) if keys.dense_list else []
    # Qwen counts layers from 1 (decoder_sparse_step), DeepSeek from 0 (moe_layer_freq).
    offset = 1 if keys.dense_list else 0
    return Experts(
        count=count,
        per_token=text.integer("num_experts_per_tok", 1, count),
        width=width,
        shared_width=shared * width,
        layers=tuple(
            index
            for index in range(first, layers)
            if (index + offset) % step == 0 and index not in dense
        ),
    )


def _dense_width(text: Fields, experts: Experts | None, layers: int) -> int:
    if experts is not None and len(experts.layers) == layers:
        return 0
    return text.integer("intermediate_size", 1, MOST_WIDTH)


def _rope(text: Fields) -> Fields | None:
    return text.child("rope_scaling") or text.child("rope_parameters")


def _longest(text: Fields) -> int | None:
    """Longest sequence: the stated one, times the rope scaling.

    vllm v0.32.0 config/model.py, `_get_and_verify_max_len`.
    """
    if not text.has("max_position_embeddings"):
        return None
    stated = text.integer("max_position_embeddings", 1, MOST_POSITIONS)
    rope = _rope(text)
    if rope is None:
        return stated
    kind = rope.text("rope_type", rope.text("type"))
    factor = rope.number("factor", 1e-6, MOST_ROPE_FACTOR, 1.0)
    if kind in _OWN_LENGTH:
        return stated
    if kind == "yarn":
        stated = rope.integer("original_max_position_embeddings", 1, MOST_POSITIONS, stated)
    return max(1, int(stated * factor))


def _rotary_elements(text: Fields, latent: Latent | None, head_dim: int) -> int:
    """Cosines and sines of every position, for the part of a head that is rotated."""
    share = text.number("partial_rotary_factor", 0.0, 1.0, 1.0)
    rotated = latent.rope if latent else text.integer(
        "rotary_dim", 1, MOST_HEAD_DIM, default=max(1, int(head_dim * share))
    )  # fmt: skip
    return (_longest(text) or 0) * rotated


def _widest(d: Dimensions) -> int:
    """Elements per token of the widest feed-forward: gate, up and their product."""
    dense = 3 * d.width
    if d.experts is None:
        return dense
    experts = d.experts
    routed = experts.per_token * (3 * experts.width + d.hidden)
    return max(dense, routed + 3 * experts.shared_width)


def _layer_group(d: Dimensions) -> LayerGroup:
    if d.latent is not None:
        return LayerGroup(LayerKind.MLA, d.layers, 1, d.latent.kv_rank + d.latent.rope, 0)
    return LayerGroup(LayerKind.FULL_ATTENTION, d.layers, d.kv_heads, d.head_dim, d.head_dim)
