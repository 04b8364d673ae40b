"""Layer rules: what a block of each kind costs on a device, and how many a sequence needs.

Each layer kind has one rule; a new kind is a new class here and a line in `RULES`. Sources: vllm
v0.32.0 v1/kv_cache_interface.py, for the classes named.
"""

from kvscale.core.engines.cache_format import EVERY_TOKEN, CacheFormat, LayerRule, Need, Scheduling
from kvscale.core.model.dtypes import BITS, kv_dtype
from kvscale.core.model.layers.compressed import INDEX_STORAGE, LATENT_STORAGE, STATE_STORAGE
from kvscale.core.model.shape import LayerGroup, LayerKind, StatePart

PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes per token of the packed formats of sparse attention: latent, rotated part and scales
(vllm v0.32.0 mla_attention.py, `state_content_bytes`)."""

V4_ENTRY_BYTES = 584
"""448 of the latent in fp8, 128 of the rotated part in bf16, 8 of scales (deepseek_v4)."""

V4_ALIGNMENT = 576
"""Pages of DeepSeek-V4 are rounded up to a multiple of this (`alignment`)."""


def device_kv_heads(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads on one rank: at least one, repeated where there are more ranks than heads."""
    return max(1, kv_heads // tensor_parallel)


class FullAttention:
    """MHA, GQA and MQA: K and V of every head and token (FullAttentionSpec)."""

    def page_bytes(self, group: LayerGroup, block_tokens: int, cache: CacheFormat) -> int:
        """Bytes of one block of one layer on one device."""
        heads = device_kv_heads(group.kv_heads, cache.tensor_parallel)
        kv = cache.kv
        return (
            block_tokens
            * heads
            * (kv.side_bytes(group.head_dim_k) + kv.side_bytes(group.head_dim_v))
        )

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:  # noqa: ARG002
        """Every token stays."""
        return EVERY_TOKEN


class SlidingWindow(FullAttention):
    """Attention to the last tokens only; older blocks are freed (SlidingWindowSpec).

    Blocks are freed when a step is settled, so the tokens in flight stay besides the window; one
    block more because the window need not begin at a block's edge.
    """

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:
        """Bounded by the window."""
        past = (group.window or 1) - 1
        return Need(
            admitted_tokens=past + scheduling.in_flight,
            resident_tokens=past + scheduling.decoding,
            extra_blocks=1,
        )


class ChunkedLocal(FullAttention):
    """Attention inside chunks of fixed length (ChunkedLocalAttentionSpec)."""

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:
        """Bounded by the chunk."""
        chunk = group.window or 1
        return Need(
            admitted_tokens=chunk + scheduling.in_flight,
            resident_tokens=chunk + scheduling.decoding,
        )


class CrossAttention(FullAttention):
    """Attention to what the encoder left, of its longest output (CrossAttentionSpec)."""

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:
        """The encoder's tokens, whatever the decoder's length."""
        return Need(fixed_tokens=max(group.window or 0, scheduling.encoder_tokens))


class Latent:
    """One vector per token, or per group of tokens, whole on every rank (MLAAttentionSpec)."""

    def page_bytes(self, group: LayerGroup, block_tokens: int, cache: CacheFormat) -> int:
        """Bytes of one block of one layer on one device."""
        size = block_tokens // group.tokens_per_entry * vector_bytes(group, cache)
        return _aligned(size) if aligned(group) else size

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:  # noqa: ARG002
        """Every token stays."""
        return EVERY_TOKEN


def vector_bytes(group: LayerGroup, cache: CacheFormat) -> int:
    """Bytes of one cached vector of latent layers."""
    if group.storage == LATENT_STORAGE:
        return V4_ENTRY_BYTES
    if group.storage == INDEX_STORAGE:
        # fp8 with one fp32 scale per 128 elements.
        return group.head_dim_k + 4 * (group.head_dim_k // 128)
    if group.storage == "uint8":
        return group.head_dim_k
    if group.storage == STATE_STORAGE:
        # A compressor's running sums, in fp32.
        return group.head_dim_k * 4
    if group.storage in BITS:
        return group.head_dim_k * BITS[group.storage] // 8_000
    windowed = group.kind is LayerKind.SLIDING_WINDOW_MLA
    packed = None if windowed else PACKED_LATENT_BYTES.get(cache.kv.name)
    return packed or cache.kv.side_bytes(group.head_dim_k)


def aligned(group: LayerGroup) -> bool:
    """Whether pages of latent layers are rounded up to a multiple of `V4_ALIGNMENT`."""
    return group.storage in {LATENT_STORAGE, INDEX_STORAGE, STATE_STORAGE}


def _aligned(size: int) -> int:
    return -(-size // V4_ALIGNMENT) * V4_ALIGNMENT


class WindowedLatent(SlidingWindow):
    """One vector per token of the last ones (SlidingWindowMLASpec)."""

    def page_bytes(self, group: LayerGroup, block_tokens: int, cache: CacheFormat) -> int:
        """Bytes of one block of one layer on one device."""
        size = block_tokens * vector_bytes(group, cache)
        return _aligned(size) if aligned(group) else size


def state_bits_milli(part: StatePart, cache: CacheFormat) -> int:
    """Thousandths of a bit of one element of a state's tensor."""
    asked = cache.temporal if part.temporal else cache.convolution
    own = part.dtype or (cache.convolution if cache.convolution != "auto" else "")
    name = (own if asked == "auto" else asked) or cache.activations
    stored = kv_dtype(name)
    return BITS.get(name) or (stored.bits_milli if stored else BITS["float32"])


class State:
    """One state of fixed size per sequence (MambaSpec)."""

    def page_bytes(
        self,
        group: LayerGroup,
        block_tokens: int,  # noqa: ARG002 - part of the rule's interface
        cache: CacheFormat,
    ) -> int:
        """Bytes of one state on one device."""
        return sum(
            device_kv_heads(part.shares, cache.tensor_parallel)
            * (part.elements + cache.drafts * part.elements_per_draft)
            * state_bits_milli(part, cache)
            // 8_000
            for part in group.state
        )

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:
        """As many states as steps can be told apart."""
        if scheduling.state_blocks is None:
            return EVERY_TOKEN
        return Need(fixed_blocks=scheduling.state_blocks + (group.kind in scheduling.checkpoints))


_LATENT, _STATE = Latent(), State()

RULES: dict[LayerKind, LayerRule] = {
    LayerKind.FULL_ATTENTION: FullAttention(),
    LayerKind.MLA: _LATENT,
    LayerKind.SPARSE_INDEXER: _LATENT,
    LayerKind.COMPRESSED_MLA: _LATENT,
    LayerKind.SLIDING_WINDOW: SlidingWindow(),
    LayerKind.SLIDING_WINDOW_MLA: WindowedLatent(),
    LayerKind.CHUNKED_LOCAL: ChunkedLocal(),
    LayerKind.MAMBA1: _STATE,
    LayerKind.MAMBA2: _STATE,
    LayerKind.GATED_DELTA_NET: _STATE,
    LayerKind.KIMI_DELTA: _STATE,
    LayerKind.LINEAR_ATTENTION: _STATE,
    LayerKind.SHORT_CONVOLUTION: _STATE,
    LayerKind.CROSS_ATTENTION: CrossAttention(),
}


def token_bytes(group: LayerGroup, cache: CacheFormat) -> float:
    """Bytes of one token in one layer, its share of what pages are rounded up to included."""
    block = group.block_tokens or 64 * group.tokens_per_entry
    return RULES[group.kind].page_bytes(group, block, cache) / block


def keeps_every_token(group: LayerGroup) -> bool:
    """Whether layers of the group grow with every token: no window, no state."""
    return group.window is None and not group.kind.recurrent


def bytes_per_token(groups: tuple[LayerGroup, ...], cache: CacheFormat) -> float:
    """KV token cost on one device: bytes that one more token of one long sequence adds.

    Layers with a bound (windows, chunks, states) add none.
    """
    return sum(
        group.layers * token_bytes(group, cache) for group in groups if keeps_every_token(group)
    )


def bytes_per_sequence(groups: tuple[LayerGroup, ...], cache: CacheFormat) -> float:
    """Bytes on one device that a long sequence holds besides its tokens: windows and states."""
    total = 0.0
    for group in groups:
        if group.kind.recurrent:
            total += group.layers * RULES[group.kind].page_bytes(group, 1, cache)
        elif group.window is not None:
            total += group.layers * group.window * token_bytes(group, cache)
    return total
