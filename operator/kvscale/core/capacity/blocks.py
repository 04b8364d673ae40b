"""Blocks: what one costs on a device, and how many a sequence needs.

Each layer kind has one rule; a new kind is a new class here and a line in `RULES`.
"""

from typing import Protocol

from kvscale.core.model.dtypes import KvDtype
from kvscale.core.model.shape import LayerGroup, LayerKind


class LayerRule(Protocol):
    """How layers of one kind keep the past."""

    @property
    def formula(self) -> str:
        """The page formula, for the trace."""
        ...

    @property
    def replicated(self) -> bool:
        """Whether every tensor-parallel rank holds the whole page."""
        ...

    def page_bytes(
        self, group: LayerGroup, block_tokens: int, tensor_parallel: int, kv: KvDtype
    ) -> int:
        """Bytes of one block of one layer on one device."""
        ...

    def blocks(self, tokens: int, block_tokens: int) -> int:
        """Blocks that a resident sequence of that many tokens holds."""
        ...


def device_kv_heads(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads on one rank: at least one, repeated where there are more ranks than heads."""
    return max(1, kv_heads // tensor_parallel)


def _ceil(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


class FullAttention:
    """MHA, GQA and MQA: K and V of every head and token (vllm v1/kv_cache_interface.py)."""

    formula = "block x kvHeadsPerDevice x (bytes of K + bytes of V)"
    replicated = False

    def page_bytes(
        self, group: LayerGroup, block_tokens: int, tensor_parallel: int, kv: KvDtype
    ) -> int:
        """Bytes of one block of one layer on one device."""
        heads = device_kv_heads(group.kv_heads, tensor_parallel)
        sides = kv.side_bytes(group.head_dim_k) + kv.side_bytes(group.head_dim_v)
        return block_tokens * heads * sides

    def blocks(self, tokens: int, block_tokens: int) -> int:
        """Every token stays."""
        return _ceil(tokens, block_tokens)


class Mla:
    """Multi-head latent attention: one latent per token, whole on every rank."""

    formula = "block x bytes of (kv_lora_rank + qk_rope_head_dim), on every rank"
    replicated = True

    def page_bytes(
        self,
        group: LayerGroup,
        block_tokens: int,
        tensor_parallel: int,  # noqa: ARG002 - part of the rule's interface
        kv: KvDtype,
    ) -> int:
        """Bytes of one block of one layer on one device."""
        return block_tokens * kv.side_bytes(group.head_dim_k)

    def blocks(self, tokens: int, block_tokens: int) -> int:
        """Every token stays."""
        return _ceil(tokens, block_tokens)


RULES: dict[LayerKind, LayerRule] = {
    LayerKind.FULL_ATTENTION: FullAttention(),
    LayerKind.MLA: Mla(),
}


def bytes_per_block(
    groups: tuple[LayerGroup, ...], block_tokens: int, tensor_parallel: int, kv: KvDtype
) -> int:
    """Bytes of one block of the pool on one device: a page in every layer.

    Both kinds keep every token, so a block of a sequence is a block in each layer, also where the
    layers' heads differ (vllm v0.32.0 UniformTypeKVCacheSpecs).
    """
    return sum(
        group.layers * RULES[group.kind].page_bytes(group, block_tokens, tensor_parallel, kv)
        for group in groups
    )


def bytes_per_token(groups: tuple[LayerGroup, ...], tensor_parallel: int, kv: KvDtype) -> int:
    """KV token cost on one device: bytes that one more token of one sequence adds."""
    return bytes_per_block(groups, 1, tensor_parallel, kv)


def layers_on_stage(
    groups: tuple[LayerGroup, ...], stage_layers: int, layers: int
) -> tuple[LayerGroup, ...]:
    """The groups of one pipeline stage: each by its share of the layers, rounded up.

    Exact for a model of one group; with several, their order is not known and the stage is
    taken as full as it may be.
    """
    return tuple(
        LayerGroup(
            group.kind, -(-group.layers * stage_layers // layers),
            group.kv_heads, group.head_dim_k, group.head_dim_v,
        )
        for group in groups
    )  # fmt: skip
