"""Which layers own an indexer, by whose small keys sparse attention picks its tokens.

Sources: vllm v0.32.0 model_executor/models/deepseek_v2.py (`_skip_topk`, Indexer) and
models/minimax_m3/nvidia/model.py; `indexer_types` after transformers v5.24
configuration_glm_moe_dsa.py.
"""

from dataclasses import dataclass

from kvscale.core.model.bounds import MOST_HEAD_DIM, MOST_HEADS, MOST_LAYERS
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.lists import layer_integers, layer_names


@dataclass(frozen=True, slots=True)
class Indexers:
    """The indexers of a model.

    Attributes:
        layers: which layers own one, in order; the others use what an earlier one picked.
        width: elements of a key.
    """

    layers: tuple[int, ...]
    width: int


def latent_indexers(text: Fields, layers: int) -> Indexers:
    """Those of sparse latent attention (DeepSeek-V3.2, GLM-5); none without `index_topk`.

    Args:
        text: config of the text model.
        layers: how many the model has.

    Raises:
        Refused: a key is of the wrong type, or absurd.
    """
    if not text.data.get("index_topk"):
        return Indexers((), 0)
    width = text.integer("index_head_dim", 1, MOST_HEAD_DIM, default=128)
    return Indexers(_owners(text, layers), width)


def _owners(text: Fields, layers: int) -> tuple[int, ...]:
    if text.has("indexer_types"):
        names = layer_names(text, "indexer_types", layers)
        return tuple(index for index, name in enumerate(names) if name == "full")
    pattern = text.text("index_topk_pattern")
    if pattern:
        return tuple(index for index in range(layers) if pattern[index : index + 1] != "S")
    every = text.integer("index_topk_freq", 1, MOST_LAYERS, default=1)
    offset = text.integer("index_skip_topk_offset", 0, MOST_LAYERS, default=2)
    return tuple(index for index in range(layers) if max(index - offset + 1, 0) % every == 0)


@dataclass(frozen=True, slots=True)
class BlockIndexers:
    """The indexers of MiniMax-M3, which pick blocks of tokens beside Q, K and V.

    Attributes:
        layers: which layers own one, in order.
        heads: queries of one.
        width: elements of a query, and of the one key.
    """

    layers: tuple[int, ...]
    heads: int
    width: int


def block_indexers(text: Fields, layers: int) -> BlockIndexers:
    """Those of MiniMax-M3; none without `sparse_attention_config`.

    Args:
        text: config of the text model.
        layers: how many the model has.

    Raises:
        Refused: a key is missing, of the wrong type, or absurd.
    """
    sparse = text.child("sparse_attention_config")
    if sparse is None:
        return BlockIndexers((), 0, 0)
    flags = layer_integers(sparse, "sparse_attention_freq", layers, 0, 1)
    return BlockIndexers(
        tuple(index for index, flag in enumerate(flags) if flag),
        sparse.integer("sparse_num_index_heads", 1, MOST_HEADS),
        sparse.integer("sparse_index_dim", 1, MOST_HEAD_DIM),
    )
