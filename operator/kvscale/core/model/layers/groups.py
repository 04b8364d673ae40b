"""The layers of a model that keep the past, grouped: from a config to `LayerGroup`s.

How a layer looks back, `layers.plan` reads; with which heads, `layers.heads`; what its state is,
`states.reading`. Here each gets its window and its place. Sources: vllm v0.32.0
model_executor/models of the architecture named.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kvscale.core.model.bounds import MOST_WINDOW
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.compressed import compressed_layers
from kvscale.core.model.layers.heads import StatedHeads, layer_heads
from kvscale.core.model.layers.indexers import block_indexers, latent_indexers
from kvscale.core.model.layers.mixer import Mixer, Mixers
from kvscale.core.model.layers.searched import searched_kv_heads
from kvscale.core.model.shape import LayerGroup, LayerKind
from kvscale.core.model.states.reading import recurrent

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


class TextModel(StatedHeads, Protocol):
    """What the caches of a text model depend on, as its `Dimensions` give it."""

    @property
    def layers(self) -> int:
        """How many layers."""
        ...

    @property
    def mixers(self) -> Mixers:
        """How each layer looks back."""
        ...

    @property
    def latent(self) -> LatentHeads | None:
        """The latent, where attention has one."""
        ...


def layer_groups(
    text: Fields, architecture: str, d: TextModel, *, needs_switch: bool
) -> tuple[LayerGroup, ...]:
    """Every layer that keeps KV or a state, grouped, in the order of the first of each group.

    Args:
        text: config of the text model.
        architecture: `architectures[0]`.
        d: its layers, how each looks back, and its heads.
        needs_switch: `sliding_window` counts only with `use_sliding_window`.

    Raises:
        Refused: a kind without a rule, or a key that is missing or absurd.
    """
    compressed = compressed_layers(text, architecture, d.layers)
    if compressed is not None:
        return compressed
    windows = _windows_in_use(text, d.mixers, needs_switch=needs_switch)
    if architecture in _SEARCHED:
        cached = _searched(text, d)
    else:
        of_mixer = {
            mixer: _cached(text, architecture, d, mixer, windows=windows)
            for mixer in dict.fromkeys(d.mixers)
        }
        cached = [of_mixer[mixer] for mixer in d.mixers]
    return (*_indexers(text, architecture, d.layers), *_grouped(cached))


def _windows_in_use(text: Fields, mixers: Mixers, *, needs_switch: bool) -> bool:
    """Whether layers with a window forget what is out of it.

    An architecture with a switch (Qwen 2 and 3) has one window for all of its layers or none:
    with some windowed layers only, the engine keeps every token of all of them (vllm v0.32.0
    engine/arg_utils.py, `CacheConfig.sliding_window`).
    """
    if not text.data.get("sliding_window"):
        return False
    if not needs_switch or Mixer.SLIDING not in mixers:
        return True
    named = text.has("layer_types")
    first = 0 if named else text.integer("max_window_layers", 0, MOST_WINDOW, default=0)
    return text.flag("use_sliding_window") and first == 0 and Mixer.FULL not in mixers


def _grouped(cached: Sequence[tuple[LayerGroup, ...]]) -> tuple[LayerGroup, ...]:
    """Equal groups of single layers as one, with the places of these layers."""
    places: dict[LayerGroup, list[int]] = {}
    for index, groups in enumerate(cached):
        for group in groups:
            places.setdefault(group, []).append(index)
    return tuple(
        replace(
            group,
            layers=len(indices),
            positions=tuple(indices) if len(indices) < len(cached) else (),
        )
        for group, indices in places.items()
    )


def _cached(
    text: Fields, architecture: str, d: TextModel, mixer: Mixer, *, windows: bool
) -> tuple[LayerGroup, ...]:
    """What one layer with that mixer caches."""
    if mixer is Mixer.NONE or mixer.reads_another:
        return ()
    if mixer is Mixer.BOTH:
        return tuple(
            group
            for one in (Mixer.MAMBA2, Mixer.FULL)
            for group in _cached(text, architecture, d, one, windows=windows)
        )
    if mixer is Mixer.CROSSED:
        (full,) = _cached(text, architecture, d, Mixer.FULL, windows=windows)
        encoder = text.integer("max_source_positions", 1, MOST_WINDOW)
        return full, replace(full, kind=LayerKind.CROSS_ATTENTION, window=encoder)
    kind = _RECURRENT.get(mixer)
    if kind is not None:
        return (LayerGroup(kind, 1, 0, 0, 0, state=recurrent(text, architecture, kind).kept()),)
    heads = layer_heads(text, architecture, d, mixer)
    if mixer is Mixer.SLIDING and not windows:
        mixer = Mixer.FULL
    if d.latent is not None and mixer is Mixer.FULL:
        return (LayerGroup(LayerKind.MLA, 1, 1, d.latent.kv_rank + d.latent.rope, 0),)
    window = _window(text, architecture, mixer)
    return (LayerGroup(_ATTENTION[mixer], 1, heads.kv_heads, heads.key, heads.value, window),)


def _window(text: Fields, architecture: str, mixer: Mixer) -> int | None:
    if mixer is Mixer.CHUNKED:
        return text.integer("attention_chunk_size", 1, MOST_WINDOW)
    if mixer is Mixer.SLIDING:
        window = text.integer("sliding_window", 1, MOST_WINDOW)
        # Cohere's window leaves the token itself out of the count (commandr.py).
        return window + 1 if architecture.startswith("Cohere2") else window
    return None


_SEARCHED = ("DeciLMForCausalLM",)
"""Architectures whose layers may each have heads of their own."""


def _searched(text: Fields, d: TextModel) -> list[tuple[LayerGroup, ...]]:
    """What each layer of a searched architecture caches."""
    return [
        (LayerGroup(LayerKind.FULL_ATTENTION, 1, kv_heads, d.head_dim, d.head_dim),)
        if kv_heads
        else ()
        for kv_heads in searched_kv_heads(text, d.layers, d.heads)
    ]


_SPARSE_LATENT = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
"""Architectures whose latents are looked up by an indexer."""


def _indexers(text: Fields, architecture: str, layers: int) -> tuple[LayerGroup, ...]:
    """The keys that sparse attention picks its tokens by, on the layers that own an indexer."""
    if architecture.startswith("MiniMaxM3"):
        blocks = block_indexers(text, layers)
        if not blocks.layers:
            return ()
        return (LayerGroup(
            LayerKind.SPARSE_INDEXER, len(blocks.layers), 1, blocks.width, 0,
            storage="bfloat16", positions=blocks.layers,
        ),)  # fmt: skip
    if architecture not in _SPARSE_LATENT:
        return ()
    found = latent_indexers(text, layers)
    if not found.layers:
        return ()
    scales = 4 * (found.width // INDEXER_SCALE_GROUP)
    return (LayerGroup(
        LayerKind.SPARSE_INDEXER, len(found.layers), 1, found.width + scales, 0,
        storage="uint8", positions=found.layers if len(found.layers) < layers else (),
    ),)  # fmt: skip
