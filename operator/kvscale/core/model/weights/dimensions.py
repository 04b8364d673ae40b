"""Reading a text model's numbers from its config."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvscale.core.model.architectures.row import Architecture, Attention, Family, QkNorm
from kvscale.core.model.bounds import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_VOCABULARY,
    MOST_WIDTH,
)
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.compressed import compress_ratios
from kvscale.core.model.layers.mixer import Mixers
from kvscale.core.model.layers.plan import layer_mixers
from kvscale.core.model.layers.stateful import nemotron_letters
from kvscale.core.model.weights.attention import Latent
from kvscale.core.model.weights.experts import read_experts
from kvscale.core.model.weights.plans.table import PLANS
from kvscale.core.model.weights.rotary import rotary_tables, used_tables
from kvscale.core.model.weights.sizes import Dimensions, Experts, Rotary

__all__ = [
    "Dimensions", "Experts", "Latent", "complete", "read_dimensions",
    "widest_feed_forward",
]  # fmt: skip


def complete(text: Fields, architecture: Architecture) -> Fields:
    """The config under the common keys, with what its architecture fills in where it is left out.

    Args:
        text: config of the text model.
        architecture: its row of the table.
    """
    added: dict[str, Any] = {}
    for key, own in architecture.renamed:
        found: Any = text.data
        for step in own.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is not None and not text.has(key):
            added[key] = found
    for key, value in architecture.defaults:
        if not text.has(key) and key not in added:
            added[key] = value
    return Fields({**text.data, **added}, text.path) if added else text


def read_dimensions(
    text: Fields, top: Fields, architecture: Architecture, dtype: str
) -> Dimensions:
    """The text model's dimensions.

    Args:
        text: config of the text model.
        top: the whole config.json; the same object for a text model.
        architecture: its row of the table.
        dtype: format of what is not quantised.

    Raises:
        Refused: a key is missing, of the wrong type, or absurd.
    """
    text = complete(text, architecture)
    layers = _layers(text, architecture)
    hidden = text.integer("hidden_size", 1, MOST_WIDTH)
    heads, kv_heads, head_dim = _heads(text, architecture, hidden)
    latent = (
        _latent(text, architecture, hidden // heads)
        if architecture.attention is Attention.LATENT
        else None
    )
    experts = read_experts(text, architecture.mixture, layers) if architecture.mixture else None
    tied = text.flag("tie_word_embeddings", default=architecture.tied)
    mixers = layer_mixers(text, architecture.name, layers)
    switch = architecture.qk_norm_switch
    # "bias" and "qkv_bias" are InternLM's (vllm v0.33.0 model_executor/models/llama.py).
    bias = text.flag("attention_bias") or text.flag("bias")
    d = Dimensions(
        layers=layers,
        hidden=hidden,
        vocabulary=text.integer("vocab_size", 1, MOST_VOCABULARY),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        width=_dense_width(text, architecture, hidden),
        gated=architecture.gated,
        tied=top.flag("tie_word_embeddings", default=tied),
        qkv_bias=text.flag("qkv_bias", default=bias) or architecture.qkv_bias,
        output_bias=bias and architecture.output_bias,
        mlp_bias=text.flag("mlp_bias"),
        qk_norm=QkNorm.NONE if switch and not text.flag(switch) else architecture.qk_norm,
        norm=0 if architecture.norm_free else hidden * (1 + architecture.norm_bias),
        latent=latent,
        experts=experts,
        dtype=dtype,
        rotary=_rotary(text, architecture, latent, head_dim, mixers),
        mixers=mixers,
    )
    _check_width(text, architecture, d)
    d = replace(d, plan=PLANS[architecture.family](text, d, architecture))
    if architecture.expands_latent and latent is not None:
        # What is cached are K and V of every head, as wide as K both (minicpm3.py).
        return replace(d, latent=None, kv_heads=heads, head_dim=latent.nope + latent.rope)
    return d


def _layers(text: Fields, architecture: Architecture) -> int:
    if not text.has(architecture.layers) and architecture.family is Family.NEMOTRON_H:
        return min(MOST_LAYERS, len(nemotron_letters(text)))
    return text.integer(architecture.layers, 1, MOST_LAYERS)


def _heads(text: Fields, architecture: Architecture, hidden: int) -> tuple[int, int, int]:
    """Query heads, KV heads and elements of one; all 0 for a model without attention."""
    if architecture.attention is Attention.NONE:
        return 0, 0, 0
    heads = text.integer("num_attention_heads", 1, MOST_HEADS)
    if architecture.attention is Attention.LATENT:
        return heads, 1, 1
    # Falcon's first form has one KV head or as many as query heads, its second states them.
    default = 1 if text.flag("multi_query") else heads
    if text.flag("new_decoder_architecture"):
        default = text.integer("num_kv_heads", 1, MOST_HEADS, default=heads)
    kv_heads = text.integer("num_key_value_heads", 1, MOST_HEADS, default=default)
    if heads % kv_heads:
        raise Refused(
            "InvalidConfig",
            f"{text.path}num_key_value_heads",
            f"{text.path}num_key_value_heads is {kv_heads}; it must divide "
            f"num_attention_heads, which is {heads}",
        )
    return heads, kv_heads, _head_dim(text, hidden, heads)


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


def _latent(text: Fields, architecture: Architecture, head: int) -> Latent:
    value = max(1, head) if architecture.expands_latent else None
    return Latent(
        q_rank=text.integer("q_lora_rank", 0, MOST_WIDTH, default=0),
        kv_rank=text.integer("kv_lora_rank", 1, MOST_WIDTH),
        rope=text.integer("qk_rope_head_dim", 1, MOST_HEAD_DIM),
        nope=text.integer("qk_nope_head_dim", 1, MOST_HEAD_DIM),
        value=text.integer("v_head_dim", 1, MOST_HEAD_DIM, default=value),
    )


def _dense_width(text: Fields, architecture: Architecture, hidden: int) -> int:
    """Width of the widest dense feed-forward; 0 where the config states none.

    Falcon states none: four times the model's.
    """
    for key in ("dense_width", "intermediate_size"):
        value = text.data.get(key)
        if isinstance(value, list) and value:
            # Layers differ; what matters of it is the widest.
            entries = text.items(key, MOST_LAYERS)
            listed = Fields(
                {str(i): entry for i, entry in enumerate(entries)}, f"{text.path}{key}."
            )
            return max(listed.integer(str(i), 1, MOST_WIDTH) for i in range(len(entries)))
        if value is not None:
            return text.integer(key, 1, MOST_WIDTH)
    if text.has("ffn_hidden_size"):
        return text.integer("ffn_hidden_size", 1, MOST_WIDTH)
    return 0 if architecture.gated else 4 * hidden


def _check_width(text: Fields, architecture: Architecture, d: Dimensions) -> None:
    """A common layer has a feed-forward: one without a width was left out, it is not missing."""
    mixtures = len(d.experts.layers) if d.experts else 0
    if architecture.family is Family.COMMON and not d.width and mixtures < d.layers:
        raise Refused(
            "InvalidConfig",
            f"{text.path}intermediate_size",
            f"{text.path}intermediate_size is missing, and no default of it is known; state the "
            "width of the feed-forward",
        )


def _rotary(
    text: Fields,
    architecture: Architecture,
    latent: Latent | None,
    head_dim: int,
    mixers: Mixers,
) -> tuple[Rotary, ...]:
    if not architecture.rotary:
        return ()
    if latent is not None:
        return rotary_tables(text, latent.rope, latent=True)
    if architecture.family is Family.DEEPSEEK_V4:
        # Compressed layers rotate by a base of their own, hence by a table of their own.
        rope = text.integer("qk_rope_head_dim", 1, MOST_HEAD_DIM)
        compressed = [ratio > 1 for ratio in compress_ratios(text, len(mixers))]
        tables = rotary_tables(text, rope, fp32=True) * 2
        return used_tables(tables, (compressed, [not one for one in compressed]))
    return _rotary_of_heads(text, architecture, head_dim, mixers) if head_dim else ()


def _rotary_of_heads(
    text: Fields, architecture: Architecture, head_dim: int, mixers: Mixers
) -> tuple[Rotary, ...]:
    """Tables of attention with heads of its own: one, or one for full layers and one for windows.

    Zamba2's belongs to its shared blocks, which every pipeline stage holds.
    """
    tables = rotary_tables(
        text,
        head_dim,
        factor=architecture.positions_factor,
        fp32=architecture.family is Family.GPT_OSS,
    )
    if architecture.family is Family.ZAMBA_2:
        return tables
    attending = [mixer.attends for mixer in mixers]
    if len(tables) == 1:
        return used_tables(tables, (attending,))
    windowed = [mixer.windowed for mixer in mixers]
    full = [attends and not window for attends, window in zip(attending, windowed, strict=True)]
    return used_tables(tables, (full, windowed))


def widest_feed_forward(d: Dimensions) -> int:
    """Elements per token of the widest feed-forward: gate, up and their product."""
    dense = (3 if d.gated else 2) * d.width
    if d.experts is None:
        return dense
    experts = d.experts
    routed = experts.per_token * (3 * experts.width + d.hidden)
    return max(dense, routed + 3 * experts.shared_width)
