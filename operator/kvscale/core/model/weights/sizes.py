"""A text model in numbers."""

from dataclasses import dataclass

from kvscale.core.model.architectures.row import QkNorm
from kvscale.core.model.layers.mixer import Mixers
from kvscale.core.model.parts import Plan
from kvscale.core.model.weights.attention import Latent

__all__ = ["Dimensions", "Experts", "Latent", "Rotary"]


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
class Rotary:
    """A rotary table: the cosine and the sine of every position.

    Attributes:
        positions: how many.
        width: elements per position, cosines and sines together.
        dtype: format; "": the model's.
        layers: which layers rotate by it, in order.
    """

    positions: int
    width: int
    dtype: str = ""
    layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dimensions:
    """A text model in numbers.

    Where layers differ, the numbers here are those of most layers, or of the model as its config
    states them; `plan` has every layer.

    Attributes:
        layers, hidden, vocabulary: depth, width, tokens.
        heads, kv_heads, head_dim: of attention; kv_heads is 1 with a latent; 0 without attention.
        width: intermediate size of a dense feed-forward; 0 if no layer has one.
        gated: the feed-forward has a gate.
        tied: the head is the embedding.
        qkv_bias, output_bias, mlp_bias: which matrices have a bias.
        qk_norm: the norm of Q and K.
        norm: elements of one norm of the model's width.
        latent, experts: None where the model has none.
        dtype: format of what is not quantised.
        rotary: the rotary tables, each once.
        mixers: how each layer looks back.
        plan: every layer's parts.
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
    norm: int
    latent: Latent | None
    experts: Experts | None
    dtype: str
    rotary: tuple[Rotary, ...] = ()
    mixers: Mixers = ()
    plan: Plan = Plan((), ())
