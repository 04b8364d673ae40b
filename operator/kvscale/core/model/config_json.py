"""Reading a Hugging Face config.json into a ModelShape."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from kvscale.core.model.architectures.table import ARCHITECTURES, Architecture
from kvscale.core.model.checkpoint.quantization import read_quantization
from kvscale.core.model.defaults import with_class_defaults
from kvscale.core.model.dtypes import BITS, canonical
from kvscale.core.model.fields import Fields, Refused, shown
from kvscale.core.model.layers.groups import layer_groups
from kvscale.core.model.positions import read_positions
from kvscale.core.model.shape import ModelShape
from kvscale.core.model.weights.dimensions import (
    complete,
    read_dimensions,
    widest_feed_forward,
)
from kvscale.core.model.weights.groups import weight_groups
from kvscale.core.model.weights.vision.table import vision_groups
from kvscale.core.refusal import Refusal

MOST_LETTERS = 100
"""Letters of an architecture's name that are compared with the known ones."""


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
    label, architecture = _architecture(top)
    stated = with_class_defaults(top, "text_config")
    text = complete(stated, architecture)
    dtype = _dtype(top, text)
    dimensions = read_dimensions(text, top, architecture, dtype)
    positions = read_positions(text)
    stored = read_quantization(_quantization_fields(top, text, quantization))
    return ModelShape(
        name=name,
        architecture=label,
        hidden_size=dimensions.hidden,
        vocabulary_size=dimensions.vocabulary,
        attention_heads=dimensions.heads,
        layer_groups=layer_groups(
            text, label, dimensions, needs_switch=architecture.window_needs_switch
        ),
        weight_groups=(
            *weight_groups(dimensions, architecture, stored),
            *vision_groups(architecture.vision, top, dtype, stored),
        ),
        max_position_embeddings=positions.longest,
        positions_unasked=positions.unasked,
        positions_by_yarn=positions.longest_by_yarn,
        kv_cache_dtype=stored.kv_cache or dtype,
        dtype=dtype,
        quantization=stored.method,
        feed_forward_width=widest_feed_forward(dimensions),
        depth=dimensions.layers,
        draft_layers=_draft_layers(text, label),
        notes=(stored.note,) if stored.note else (),
        experts_per_token=dimensions.experts.per_token if dimensions.experts else 0,
    )


def _architecture(top: Fields) -> tuple[str, Architecture]:
    names = top.items("architectures", 100)
    label = names[0] if names else None
    if not isinstance(label, str) or label not in ARCHITECTURES:
        raise Refused(
            "UnknownArchitecture",
            "architectures",
            f"architectures[0] is {shown(label)}, which is none of the {len(ARCHITECTURES)} known "
            f"here{_closest(label)}: declare the model by model.shape",
        )
    return label, ARCHITECTURES[label]


def _closest(label: object) -> str:
    """The names that a mistyped one may stand for, for a message; "" where nothing is close."""
    text = label[:MOST_LETTERS] if isinstance(label, str) else ""
    close = get_close_matches(text, ARCHITECTURES, n=3, cutoff=0.7)
    return f" (close to it {'are' if len(close) > 1 else 'is'} {', '.join(close)})" if close else ""


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
    return Fields({"hf_quant_config": beside}).child("hf_quant_config")


_DRAFT_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")


def _draft_layers(text: Fields, label: str) -> int:
    """Layers for multi-token prediction that come with the checkpoint."""
    key = next((key for key in _DRAFT_KEYS if text.has(key)), "")
    # Qwen3-Next has one and does not say so (vllm v0.32.0 qwen3_next_mtp.py).
    own = int(label == "Qwen3NextForCausalLM")
    return text.integer(key, 0, 64, default=own) if key else own
