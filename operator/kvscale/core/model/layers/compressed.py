"""DeepSeek-V4's layers: each caches windowed, compressed and indexing vectors side by side.

A layer with compress ratio 4 or 128 keeps one vector per so many tokens, plus the fp32 state of
the compressor that makes them; every layer keeps a sliding window of uncompressed ones. Sources:
vllm v0.32.0 models/deepseek_v4/{attention,compressor}.py, v1/attention/backends/mla/sparse_swa.py.
"""

from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.lists import layer_integers
from kvscale.core.model.shape import LayerGroup, LayerKind

ARCHITECTURE = "DeepseekV4ForCausalLM"

WINDOW_BLOCK = 64
"""Tokens per block of the window's cache."""

FINE, COARSE = 4, 128
"""Tokens that one compressed vector stands for; the fine ones are looked up by an indexer."""

_STATE_BLOCK = {FINE: 4, COARSE: 8}
"""Tokens per block of a compressor's state, so that its page is close to those it lies beside."""

LATENT_STORAGE = "deepseek_v4"
INDEX_STORAGE = "deepseek_v4_index"
STATE_STORAGE = "deepseek_v4_state"

MOST = 1 << 14


def compress_ratios(text: Fields, layers: int) -> tuple[int, ...]:
    """Tokens that one compressed vector of each layer stands for; 0 or 1 where it keeps none.

    Args:
        text: config of the text model.
        layers: of the model; further ratios (of draft layers) are left out.

    Raises:
        Refused: too few of them, or one that the engine does not know.
    """
    ratios = layer_integers(text, "compress_ratios", layers, 0, MOST)
    field = f"{text.path}compress_ratios"
    for position, ratio in enumerate(ratios):
        if ratio not in (0, 1, FINE, COARSE):
            raise Refused(
                "InvalidConfig",
                field,
                f"{field}[{position}] is {ratio}; it must be 0, {FINE} or {COARSE}",
            )
    return ratios


def compressed_layers(
    text: Fields, architecture: str, layers: int
) -> tuple[LayerGroup, ...] | None:
    """The groups of a DeepSeek-V4 model; None for any other.

    Args:
        text: config of the text model.
        architecture: `architectures[0]`.
        layers: of the model.

    Raises:
        Refused: a ratio that the engine does not know, or a key that is missing or absurd.
    """
    if architecture != ARCHITECTURE:
        return None
    width = text.integer("head_dim", 1, MOST)
    index = text.integer("index_head_dim", 1, MOST)
    window = text.integer("sliding_window", 1, 1 << 31)
    places: dict[int, list[int]] = {}
    for position, ratio in enumerate(compress_ratios(text, layers)):
        places.setdefault(ratio, []).append(position)
    groups = [
        LayerGroup(
            LayerKind.SLIDING_WINDOW_MLA, layers, 1, width, 0,
            window=window, block_tokens=WINDOW_BLOCK, storage=LATENT_STORAGE,
        )
    ]  # fmt: skip
    for ratio, indices in places.items():
        if ratio in (FINE, COARSE):
            groups += _compressed(ratio, tuple(indices), width, index)
    return tuple(groups)


def _compressed(ratio: int, positions: tuple[int, ...], width: int, index: int) -> list[LayerGroup]:
    """The caches of the layers with one ratio."""
    # Fine compression overlaps: it looks at two groups of tokens and keeps both halves.
    overlap = 2 if ratio == FINE else 1

    def state(elements: int) -> LayerGroup:
        # Of each element a sum and a score.
        return LayerGroup(
            LayerKind.SLIDING_WINDOW_MLA, len(positions), 1, 2 * overlap * elements, 0,
            window=overlap * ratio, block_tokens=_STATE_BLOCK[ratio], storage=STATE_STORAGE,
            positions=positions,
        )  # fmt: skip

    def vectors(kind: LayerKind, elements: int, storage: str) -> LayerGroup:
        return LayerGroup(
            kind, len(positions), 1, elements, 0,
            tokens_per_entry=ratio, storage=storage, positions=positions,
        )  # fmt: skip

    groups = [vectors(LayerKind.COMPRESSED_MLA, width, LATENT_STORAGE), state(width)]
    if ratio == FINE:
        groups += [vectors(LayerKind.SPARSE_INDEXER, index, INDEX_STORAGE), state(index)]
    return groups
