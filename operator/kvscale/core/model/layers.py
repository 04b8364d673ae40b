"""The layers of a model that keep the past, grouped: from a config to `LayerGroup`s.

What a layer is, `core.model.layer_plan` reads; what its state is, `core.model.states`. Here each
gets its heads, its window and its place. Sources: vllm v0.32.0 model_executor/models of the
architecture named.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kvscale.core.model.compressed import compressed_layers
from kvscale.core.model.fields import Fields
from kvscale.core.model.layer_plan import Mixer, layer_plan
from kvscale.core.model.shape import LayerGroup, LayerKind
from kvscale.core.model.states import state_parts
from kvscale.core.model.unsupported_layers import refuse_unsupported_layers

MOST_WINDOW = 1 << 31
MOST_HEADS = 1 << 14
MOST_HEAD_DIM = 1 << 14

INDEXER_SCALE_GROUP = 128
"""Elements of an indexer's key per fp32 scale (vllm v0.32.0 deepseek_v2.py, Indexer)."""

_RECURRENT = {
    Mixer.MAMBA1: LayerKind.MAMBA1,
    Mixer.MAMBA2: LayerKind.MAMBA2,
    Mixer.GATED_DELTA: LayerKind.GATED_DELTA_NET,
    Mixer.KIMI_DELTA: LayerKind.KIMI_DELTA,
    Mixer.LINEAR: LayerKind.LINEAR_ATTENTION,
    Mixer.CONVOLUTION: LayerKind.SHORT_CONVOLUTION,
}
_ATTENTION = {
    Mixer.FULL: LayerKind.FULL_ATTENTION,
    Mixer.SLIDING: LayerKind.SLIDING_WINDOW,
    Mixer.CHUNKED: LayerKind.CHUNKED_LOCAL,
}


class LatentHeads(Protocol):
    """What a latent caches per token."""

    @property
    def kv_rank(self) -> int:
        """Width of the latent."""
        ...

    @property
    def rope(self) -> int:
        """Rotated elements beside it."""
        ...


class Heads(Protocol):
    """The attention of a text model as its `Dimensions` give it."""

    @property
    def layers(self) -> int:
        """How many layers."""
        ...

    @property
    def heads(self) -> int:
        """Query heads."""
        ...

    @property
    def kv_heads(self) -> int:
        """KV heads, where layers do not differ."""
        ...

    @property
    def head_dim(self) -> int:
        """Elements per head, where layers do not differ."""
        ...

    @property
    def latent(self) -> LatentHeads | None:
        """The latent, where attention has one."""
        ...


def layer_groups(
    text: Fields, architecture: str, d: Heads, *, needs_switch: bool
) -> tuple[LayerGroup, ...]:
    """Every layer that keeps KV or a state, grouped, in the order of the first of each group.

    Args:
        text: config of the text model.
        architecture: `architectures[0]`.
        d: its layers and heads.
        needs_switch: `sliding_window` counts only with `use_sliding_window`.

    Raises:
        Refused: a kind without a rule, or a key that is missing or absurd.
    """
    compressed = compressed_layers(text, architecture, d.layers)
    if compressed is not None:
        return compressed
    refuse_unsupported_layers(text, architecture)
    plan = _in_use(text, layer_plan(text, architecture, d.layers), needs_switch=needs_switch)
    if _uniform(plan) and architecture not in _PER_LAYER:
        groups = _mixed(text, architecture, d, plan[0])
        return (*_indexers(text, architecture, d.layers), *groups)
    return _grouped(text, architecture, d, plan)


def _uniform(plan: Sequence[Mixer]) -> bool:
    return all(mixer is plan[0] for mixer in plan)


def _in_use(text: Fields, plan: Sequence[Mixer], *, needs_switch: bool) -> Sequence[Mixer]:
    """The plan with windows that are switched off, or that some layers cannot have, made full.

    An architecture with a switch (Qwen 2 and 3) has one window for all of its layers or none:
    with some windowed layers only, the engine keeps every token of all of them (vllm v0.32.0
    engine/arg_utils.py, `CacheConfig.sliding_window`).
    """
    if Mixer.SLIDING not in plan:
        return plan
    off = not text.data.get("sliding_window")
    if needs_switch and not off:
        named = text.has("layer_types")
        first = 0 if named else text.integer("max_window_layers", 0, MOST_WINDOW, default=0)
        off = not text.flag("use_sliding_window") or first > 0 or Mixer.FULL in plan
    return [Mixer.FULL if mixer is Mixer.SLIDING else mixer for mixer in plan] if off else plan


def _grouped(
    text: Fields, architecture: str, d: Heads, plan: Sequence[Mixer]
) -> tuple[LayerGroup, ...]:
    by_mixer: dict[Mixer, tuple[LayerGroup, ...]] = {}
    places: dict[LayerGroup, list[int]] = {}
    for index, mixer in enumerate(plan):
        if architecture in _PER_LAYER:
            of_layer = _block_config(text, d, index)
        else:
            if mixer not in by_mixer:
                by_mixer[mixer] = _mixed(text, architecture, d, mixer)
            of_layer = by_mixer[mixer]
        for group in of_layer:
            places.setdefault(replace(group, layers=1), []).append(index)
    return (
        *_indexers(text, architecture, d.layers),
        *(
            replace(group, layers=len(indices), positions=tuple(indices))
            for group, indices in places.items()
        ),
    )


def _mixed(text: Fields, architecture: str, d: Heads, mixer: Mixer) -> tuple[LayerGroup, ...]:
    """What a layer with that mixer caches, for all layers of the model."""
    if mixer in (Mixer.NONE, Mixer.SHARED):
        return ()
    if mixer is Mixer.BOTH:
        return (
            *_mixed(text, architecture, d, Mixer.MAMBA2),
            *_mixed(text, architecture, d, Mixer.FULL),
        )
    if mixer is Mixer.CROSSED:
        (full,) = _mixed(text, architecture, d, Mixer.FULL)
        encoder = text.integer("max_source_positions", 1, MOST_WINDOW)
        return full, replace(full, kind=LayerKind.CROSS_ATTENTION, window=encoder)
    kind = _RECURRENT.get(mixer)
    if kind is not None:
        return (LayerGroup(kind, d.layers, 0, 0, 0, state=state_parts(text, architecture, kind)),)
    if d.latent is not None and mixer is Mixer.FULL:
        return (LayerGroup(LayerKind.MLA, d.layers, 1, d.latent.kv_rank + d.latent.rope, 0),)
    kv_heads, key, value = _heads(text, architecture, d, mixer)
    return (LayerGroup(
        _ATTENTION[mixer], d.layers, kv_heads, key, value, window=_window(text, architecture, mixer)
    ),)  # fmt: skip


def _window(text: Fields, architecture: str, mixer: Mixer) -> int | None:
    if mixer is Mixer.CHUNKED:
        return text.integer("attention_chunk_size", 1, MOST_WINDOW)
    if mixer is Mixer.SLIDING:
        window = text.integer("sliding_window", 1, MOST_WINDOW)
        # Cohere's window leaves the token itself out of the count (commandr.py).
        return window + 1 if architecture.startswith("Cohere2") else window
    return None


def _heads(text: Fields, architecture: str, d: Heads, mixer: Mixer) -> tuple[int, int, int]:
    """KV heads, and elements of K and V per head, of the layers with that mixer."""

    def heads(key: str, default: int) -> int:
        return text.integer(key, 1, MOST_HEADS, default=default)

    def dim(key: str, default: int) -> int:
        return text.integer(key, 1, MOST_HEAD_DIM, default=default)

    if architecture.startswith("Gemma4") and mixer is Mixer.FULL:
        same = text.flag("attention_k_eq_v")
        size = dim("global_head_dim", d.head_dim)
        return heads("num_global_key_value_heads", d.kv_heads) if same else d.kv_heads, size, size
    if architecture.startswith("MiMoV2"):
        value = dim("v_head_dim", d.head_dim)
        if mixer is Mixer.SLIDING:
            key = dim("swa_head_dim", d.head_dim)
            return heads("swa_num_key_value_heads", d.kv_heads), key, dim("swa_v_head_dim", value)
        return d.kv_heads, d.head_dim, value
    if architecture == "Zamba2ForCausalLM":
        # Attention sees two hidden vectors side by side (zamba2.py).
        size = dim("attention_head_dim", 2 * d.head_dim)
        return d.kv_heads, size, size
    if architecture.startswith("Step3p5") and mixer is Mixer.SLIDING:
        other = text.child("attention_other_setting")
        if other is not None:
            groups = other.integer("num_attention_groups", 1, MOST_HEADS, default=d.kv_heads)
            return groups, d.head_dim, d.head_dim
    return d.kv_heads, d.head_dim, d.head_dim


_PER_LAYER = ("DeciLMForCausalLM",)
"""Architectures whose layers may each have heads of their own."""


def _block_config(text: Fields, d: Heads, index: int) -> tuple[LayerGroup, ...]:
    """One layer of a searched architecture (vllm v0.32.0 nemotron_nas.py)."""
    blocks = text.items("block_configs", 1 << 12)
    field = f"{text.path}block_configs"
    block = Fields({"item": blocks[index] if index < len(blocks) else None}, f"{field}[{index}].")
    attention = (block.child("item") or Fields({}, block.path)).child("attention")
    if attention is None:
        return (LayerGroup(LayerKind.FULL_ATTENTION, 1, d.kv_heads, d.head_dim, d.head_dim),)
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return ()
    shared = attention.integer("n_heads_in_group", 1, d.heads)
    return (LayerGroup(LayerKind.FULL_ATTENTION, 1, d.heads // shared, d.head_dim, d.head_dim),)


_SPARSE_LATENT = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
"""Architectures whose latents are looked up by an indexer."""


def _indexers(text: Fields, architecture: str, layers: int) -> tuple[LayerGroup, ...]:
    """The keys that sparse attention picks its tokens by, on the layers that own an indexer."""
    if architecture.startswith("MiniMaxM3"):
        sparse = text.child("sparse_attention_config")
        owners = sparse.items("sparse_attention_freq", 1 << 12) if sparse is not None else []
        places = tuple(i for i, flag in enumerate(owners[:layers]) if flag)
        if sparse is None or not places:
            return ()
        width = sparse.integer("sparse_index_dim", 1, MOST_HEAD_DIM)
        return (LayerGroup(
            LayerKind.SPARSE_INDEXER, len(places), 1, width, 0,
            storage="bfloat16", positions=places,
        ),)  # fmt: skip
    if not text.data.get("index_topk") or architecture not in _SPARSE_LATENT:
        return ()
    width = text.integer("index_head_dim", 1, MOST_HEAD_DIM, default=128)
    places = _indexed_layers(text, layers)
    scales = 4 * (width // INDEXER_SCALE_GROUP)
    return (LayerGroup(
        LayerKind.SPARSE_INDEXER, len(places), 1, width + scales, 0,
        storage="uint8", positions=places if len(places) < layers else (),
    ),)  # fmt: skip


def _indexed_layers(text: Fields, layers: int) -> tuple[int, ...]:
    """Layers that compute their own selection; the others reuse the one before.

    vllm v0.32.0 model_executor/models/deepseek_v2.py, `_skip_topk`.
    """
    pattern = text.text("index_topk_pattern")
    if pattern:
        return tuple(i for i in range(layers) if i >= len(pattern) or pattern[i] != "S")
    every = text.integer("index_topk_freq", 1, MOST_HEADS, default=1)
    offset = text.integer("index_skip_topk_offset", 0, MOST_HEADS, default=2)
    return tuple(i for i in range(layers) if max(i - offset + 1, 0) % every == 0)
