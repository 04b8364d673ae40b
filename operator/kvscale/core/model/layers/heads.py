"""With how many heads, and of which size, a layer of each kind attends.

Sources: vllm v0.32.0 model_executor/models/{gemma4,mimo_v2,step3p5,zamba2}.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kvscale.core.model.bounds import MOST_HEAD_DIM, MOST_HEADS, MOST_WIDTH
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.mixer import Mixer


class StatedHeads(Protocol):
    """The heads of a text model where layers do not differ, as its `Dimensions` give them."""

    @property
    def heads(self) -> int:
        """Query heads."""
        ...

    @property
    def kv_heads(self) -> int:
        """KV heads."""
        ...

    @property
    def head_dim(self) -> int:
        """Elements per head."""
        ...


@dataclass(frozen=True, slots=True)
class LayerHeads:
    """The heads of one layer.

    Attributes:
        heads, kv_heads: of Q; of K and V.
        key, value: elements of K (and Q) and of V per head and token.
    """

    heads: int
    kv_heads: int
    key: int
    value: int


def _count(text: Fields, key: str, default: int) -> int:
    return text.integer(key, 1, MOST_HEADS, default=default)


def _size(text: Fields, key: str, default: int) -> int:
    return text.integer(key, 1, MOST_HEAD_DIM, default=default)


def _gemma4(text: Fields, usual: LayerHeads, mixer: Mixer) -> LayerHeads:
    """Full layers have wider heads; V may be K of the checkpoint, but the engine keeps both."""
    if mixer.windowed:
        return usual
    size = _size(text, "global_head_dim", usual.key)
    kv_heads = usual.kv_heads
    if text.flag("attention_k_eq_v"):
        kv_heads = _count(text, "num_global_key_value_heads", kv_heads)
    return LayerHeads(usual.heads, kv_heads, size, size)


def _mimo(text: Fields, usual: LayerHeads, mixer: Mixer) -> LayerHeads:
    """Window layers have heads of their own; V is narrower than K."""
    value = _size(text, "v_head_dim", usual.key)
    if not mixer.windowed:
        return replace(usual, value=value)
    return LayerHeads(
        _count(text, "swa_num_attention_heads", usual.heads),
        _count(text, "swa_num_key_value_heads", usual.kv_heads),
        _size(text, "swa_head_dim", usual.key),
        _size(text, "swa_v_head_dim", value),
    )


def _step(text: Fields, usual: LayerHeads, mixer: Mixer) -> LayerHeads:
    """Layers of the kind that `attention_other_setting` names have the heads that it states."""
    other = text.child("attention_other_setting")
    name = "sliding_attention" if mixer.windowed else "full_attention"
    if other is None or not text.data.get("layer_types") or other.text("attention_type") != name:
        return usual
    size = _size(other, "head_dim", usual.key)
    return LayerHeads(
        _count(other, "num_attention_heads", usual.heads),
        _count(other, "num_attention_groups", usual.kv_heads),
        size,
        size,
    )


def zamba_width(text: Fields, hidden: int) -> int:
    """Width of what Zamba2's attention sees: two hidden vectors side by side."""
    return text.integer("attention_hidden_size", 1, MOST_WIDTH, default=2 * hidden)


def _zamba2(text: Fields, usual: LayerHeads, _mixer: Mixer) -> LayerHeads:
    """Attention is twice as wide as the model, with as many KV heads as query heads."""
    if text.has("attention_head_dim"):
        size = text.integer("attention_head_dim", 1, MOST_HEAD_DIM)
    else:
        wide = zamba_width(text, text.integer("hidden_size", 1, MOST_WIDTH))
        size = max(1, wide // usual.heads)
    return LayerHeads(usual.heads, usual.heads, size, size)


_RULES: dict[str, Callable[[Fields, LayerHeads, Mixer], LayerHeads]] = {
    "Gemma4ForCausalLM": _gemma4,
    "Gemma4ForConditionalGeneration": _gemma4,
    "MiMoV2FlashForCausalLM": _mimo,
    "MiMoV2ForCausalLM": _mimo,
    "Step3p5ForCausalLM": _step,
    "Step3p7FlashForCausalLM": _step,
    "Zamba2ForCausalLM": _zamba2,
}


def layer_heads(text: Fields, architecture: str, d: StatedHeads, mixer: Mixer) -> LayerHeads:
    """The heads of the layers with that mixer.

    Args:
        text: config of the text model.
        architecture: `architectures[0]`.
        d: the heads that the config states for the model.
        mixer: how the layer looks back.

    Raises:
        Refused: a key is of the wrong type, or absurd.
    """
    usual = LayerHeads(d.heads, d.kv_heads, d.head_dim, d.head_dim)
    rule = _RULES.get(architecture)
    return rule(text, usual, mixer) if rule is not None else usual
