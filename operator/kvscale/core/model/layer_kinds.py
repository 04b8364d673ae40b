"""Which layers of a config keep their past in a way that has no rule here.

Such a model is refused by the name of the layer kind and of the key that shows it: a KV ceiling
computed as if every layer were full attention is wrong by up to ten times.

When a kind gets its rule (`core.capacity.blocks.RULES`), its line goes from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvscale.core.model.fields import Fields, Refused, shown, whole

MOST_LAYERS = 512
"""Four times the deepest model known (Llama-3.1-405B: 126); bounds the work on a bad config."""

_LAYER_TYPES = {
    "sliding_attention": "SlidingWindow",
    "chunked_attention": "ChunkedLocal",
    "linear_attention": "LinearAttention",
    "mamba": "Mamba",
    "mamba2": "Mamba",
    "recurrent": "Recurrent",
    "conv": "Convolution",
    "deepseek_sparse_attention": "SparseAttentionIndexer",
    "cross_attention": "CrossAttention",
}
"""Names in `layer_types` (transformers configuration_utils.py, ALLOWED_LAYER_TYPES)."""


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
    """

    key: str
    kind: str
    shows: Callable[[Any], bool] = _filled


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
    _Mark("sparse_attention_config", "SparseAttentionIndexer"),
    _Mark("dual_chunk_attention_config", "DualChunkAttention"),
    _Mark("attention_chunk_size", "ChunkedLocal"),
    _Mark("block_configs", "HeterogeneousBlocks"),
    _Mark("num_kv_shared_layers", "KVSharing"),
)


def _refuse(field: str, kind: str) -> Refused:
    return Refused(
        "UnsupportedLayerKind",
        field,
        f"{field} shows layers of kind {kind}, whose KV cache has no rule here; "
        "supported are FullAttention and MLA. Declare the ceiling by a model.shape of your own, "
        "or let a running engine report it",
    )


def refuse_unsupported_layers(config: Fields) -> None:
    """Pass a config whose layers all have a rule.

    `sliding_window` is not looked at here: what it means depends on the architecture.

    Raises:
        Refused: a layer kind without a rule, by name, with the key that shows it.
    """
    for position, layer_type in enumerate(config.items("layer_types", MOST_LAYERS)):
        if layer_type == "full_attention":
            continue
        field = f"{config.path}layer_types"
        if not isinstance(layer_type, str):
            raise Refused(
                "InvalidConfig",
                field,
                f"{field}[{position}] is {shown(layer_type)}; it must be a string",
            )
        raise _refuse(field, _LAYER_TYPES.get(layer_type, layer_type[:60]))
    for mark in _MARKS:
        if mark.shows(config.data.get(mark.key)):
            raise _refuse(config.path + mark.key, mark.kind)


def refuse_sliding_window(
    config: Fields, layers: int, longest: int | None, *, needs_switch: bool
) -> None:
    """Pass a config whose `sliding_window` is not in use.

    A window that no sequence outgrows forgets nothing (Phi-4-mini: 262,144 for 131,072 tokens).

    Args:
        config: the text model's config.
        layers: its number of layers.
        longest: its longest sequence; None if it states none.
        needs_switch: the architecture uses the window only where `use_sliding_window` is true, and
            there only from layer `max_window_layers` on (transformers configuration_qwen2.py);
            otherwise a window that is set is used on every layer (configuration_mistral.py).

    Raises:
        Refused: the window is in use.
    """
    if not config.has("sliding_window"):
        return
    window = whole(config.data["sliding_window"])
    if window is not None and longest is not None and window >= longest:
        return
    if needs_switch:
        if not config.flag("use_sliding_window"):
            return
        if config.integer("max_window_layers", 0, MOST_LAYERS, default=0) >= layers:
            return
    raise _refuse(config.path + "sliding_window", "SlidingWindow")
