"""Which keys of a config show layers that have no rule here, for architectures that lack one.

Such a model is refused by the name of the layer kind and of the key that shows it: a KV ceiling
computed as if every layer were full attention is wrong by up to ten times. An architecture in
`core.model.layers.plan.READINGS` reads these keys itself and is not asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.mixer import unsupported


def _filled(value: Any) -> bool:
    """Neither missing nor switched off: 0, false, "" and empty containers count as off."""
    return bool(value)


def _not_all_ones(value: Any) -> bool:
    """MiniMax writes 1 for full attention and 0 for linear, layer by layer."""
    return value is not None and not (isinstance(value, list) and all(i == 1 for i in value))


def _above_one(value: Any) -> bool:
    """An interval of 1 makes every layer a full one."""
    return value is not None and value != 1


@dataclass(frozen=True, slots=True)
class _Mark:
    """A key that shows a layer kind.

    Attributes:
        key: of the text model's config.
        kind: what it shows.
        shows: whether this value of the key shows it.
        read_by: beginnings of the architectures that read the key.
    """

    key: str
    kind: str
    shows: Callable[[Any], bool] = _filled
    read_by: tuple[str, ...] = ()


_MARKS = (
    _Mark("is_encoder_decoder", "EncoderDecoder"),
    _Mark("add_cross_attention", "CrossAttention"),
    _Mark("cross_attention_layers", "CrossAttention"),
    _Mark("attn_type_list", "LinearAttention", _not_all_ones),
    _Mark("hybrid_override_pattern", "Mamba"),
    _Mark("hybrid_layer_pattern", "SlidingWindow"),
    _Mark("layers_block_type", "Hybrid"),
    _Mark("full_attention_interval", "LinearAttention", _above_one),
    _Mark("linear_num_value_heads", "LinearAttention"),
    _Mark("linear_attn_config", "LinearAttention"),
    _Mark("mamba_num_heads", "Mamba"),
    _Mark("mamba_d_state", "Mamba"),
    _Mark("ssm_state_size", "Mamba"),
    _Mark("ssm_cfg", "Mamba"),
    _Mark("compress_ratios", "CompressedAttention"),
    _Mark("index_topk", "SparseAttentionIndexer"),
    _Mark("sparse_attention_config", "SparseAttentionIndexer", read_by=("MiniMaxM3",)),
    _Mark("dual_chunk_attention_config", "DualChunkAttention"),
    _Mark("attention_chunk_size", "ChunkedLocal"),
    _Mark("block_configs", "HeterogeneousBlocks"),
    _Mark("num_kv_shared_layers", "KVSharing"),
)


def refuse_unsupported_layers(config: Fields, architecture: str) -> None:
    """Pass a config whose layers all have a rule.

    Raises:
        Refused: a layer kind without a rule, by name, with the key that shows it.
    """
    for mark in _MARKS:
        if mark.shows(config.data.get(mark.key)) and not architecture.startswith(
            mark.read_by or ("\0",)
        ):
            raise unsupported(config.path + mark.key, mark.kind)
