"""A text model in numbers, and their reading from its config."""

from dataclasses import dataclass

from kvscale.core.model.architectures import Architecture, Attention, QkNorm
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layer_kinds import MOST_LAYERS

MOST_WIDTH = 1 << 20
MOST_HEADS = 1 << 14
MOST_HEAD_DIM = 1 << 14
MOST_VOCABULARY = 1 << 26
MOST_EXPERTS = 1 << 14
MOST_POSITIONS = 1 << 31
MOST_ROPE_FACTOR = 1 << 20

_OWN_LENGTH = ("su", "longrope", "llama3")
"""Rope types whose `max_position_embeddings` already counts the scaling."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Dimensions of multi-head latent attention.

    Attributes:
        q_rank: width of the query's latent; 0: the query is not compressed.
        kv_rank: width of the latent that is cached.
        rope, nope, value: elements per head with and without rotation, and of V.
    """

    q_rank: int
    kv_rank: int
    rope: int
    nope: int
    value: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts.

    Attributes:
        count, per_token: routed experts, and how many of them a token uses.
        width: intermediate size of one.
        shared_width: intermediate size of what every token passes through; 0 if none.
        layers: which layers have it, in order.
    """

    count: int
    per_token: int
    width: int
    shared_width: int
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dimensions:
    """A text model in numbers.

    Attributes:
        layers, hidden, vocabulary: depth, width, tokens.
        heads, kv_heads, head_dim: of attention; kv_heads is 1 with a latent.
        width: intermediate size of a dense feed-forward.
        gated: the feed-forward has a gate.
        tied: the head is the embedding.
        qkv_bias, output_bias, mlp_bias: which matrices have a bias.
        qk_norm: the norm of Q and K.
        rotary_elements: elements of the rotary table (cosines and sines of every position).
        latent, experts: None where the model has none.
        dtype: format of what is not quantised.
    """

    layers: int
    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    gated: bool
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: QkNorm
    rotary_elements: int
    latent: Latent | None
    experts: Experts | None
    dtype: str


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
    layers = text.integer(architecture.layers, 1, MOST_LAYERS)
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
    tied = text.flag("tie_word_embeddings", default=architecture.tied)
    switch = architecture.qk_norm_switch
    # "bias" and "qkv_bias" are InternLM's (vllm v0.33.0 model_executor/models/llama.py).
    bias = text.flag("attention_bias") or text.flag("bias")
    return Dimensions(
        layers=layers,
        hidden=hidden,
        vocabulary=text.integer("vocab_size", 1, MOST_VOCABULARY),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        width=_dense_width(text, experts, layers),
        gated=architecture.gated,
        tied=top.flag("tie_word_embeddings", default=tied),
        qkv_bias=text.flag("qkv_bias", default=bias) or architecture.qkv_bias,
        output_bias=bias and architecture.output_bias,
        mlp_bias=text.flag("mlp_bias"),
        qk_norm=QkNorm.NONE if switch and not text.flag(switch) else architecture.qk_norm,
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
    shared = width * text.integer(keys.shared, 0, 1_000, default=0) if keys.shared else 0
    if keys.shared_width:
        shared = text.integer(keys.shared_width, 0, MOST_WIDTH, default=0)
    first = text.integer(keys.dense_first, 0, MOST_LAYERS, default=0) if keys.dense_first else 0
    step = text.integer(keys.step, 1, MOST_LAYERS, default=1) if keys.step else 1
    dense = text.items(keys.dense_list, MOST_LAYERS) if keys.dense_list else []
    # Qwen counts layers from 1 (decoder_sparse_step), DeepSeek from 0 (moe_layer_freq).
    offset = 1 if keys.dense_list else 0
    return Experts(
        count=count,
        per_token=text.integer("num_experts_per_tok", 1, count),
        width=width,
        shared_width=shared,
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


def longest_sequence(text: Fields) -> int | None:
    """Longest sequence: the stated one, times the rope scaling.

    vllm v0.32.0 config/model.py, `_get_and_verify_max_len`.
    """
    # Command-R states 8192 positions and serves what its `model_max_length` says.
    key = next(
        (key for key in ("model_max_length", "max_position_embeddings") if text.has(key)), ""
    )
    if not key:
        return None
    stated = text.integer(key, 1, MOST_POSITIONS)
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
    return (longest_sequence(text) or 0) * rotated


def widest_feed_forward(d: Dimensions) -> int:
    """Elements per token of the widest feed-forward: gate, up and their product."""
    dense = (3 if d.gated else 2) * d.width
    if d.experts is None:
        return dense
    experts = d.experts
    routed = experts.per_token * (3 * experts.width + d.hidden)
    return max(dense, routed + 3 * experts.shared_width)
