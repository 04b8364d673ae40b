"""vLLM's block size: what attention backends need, and what recurrent states make of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.engines.vllm.blocks import BlockDevice, BlockSize, block_size
from kvscale.core.engines.vllm.rules import Rules, rules_of
from kvscale.core.model.dtypes import kv_dtype
from kvscale.core.model.shape import LayerGroup, LayerKind, StatePart
from kvscale.core.refusal import Refusal

FULL = LayerGroup(LayerKind.FULL_ATTENTION, 8, 8, 128, 128)
LATENT = LayerGroup(LayerKind.MLA, 61, 1, 576, 0)
INDEXER = LayerGroup(LayerKind.SPARSE_INDEXER, 61, 1, 132, 0, storage="uint8")
SPARSE_KEYS = LayerGroup(LayerKind.SPARSE_INDEXER, 57, 1, 128, 0, storage="bfloat16")
COMPRESSED = LayerGroup(LayerKind.COMPRESSED_MLA, 20, 1, 512, 0, tokens_per_entry=4)


def rules(version: str) -> Rules:
    found = rules_of(version)
    assert isinstance(found, Rules), found
    return found


def cache(dtype: str = "bfloat16", ranks: int = 1) -> CacheFormat:
    kv = kv_dtype(dtype)
    assert kv is not None
    return CacheFormat(ranks, kv)


def state(elements: int) -> LayerGroup:
    part = StatePart(1, elements, dtype="float32")
    return LayerGroup(LayerKind.MAMBA2, 24, 0, 0, 0, state=(part,))


def block(
    version: str,
    capability: str,
    groups: tuple[LayerGroup, ...],
    *,
    dtype: str = "bfloat16",
    requested: int | None = None,
    grid: int = 1,
) -> BlockSize:
    found = block_size(
        rules(version), requested, groups, cache(dtype), BlockDevice(capability, grid)
    )
    assert isinstance(found, BlockSize), found
    return found


@pytest.mark.parametrize(
    ("version", "capability", "dtype", "requested", "expected"),
    [
        ("0.32.0", "8.0", "bfloat16", None, 16),
        ("0.32.0", "9.0", "bfloat16", None, 16),
        ("0.32.0", "9.0", "fp8", None, 64),
        ("0.32.0", "9.0", "fp8", 128, 128),
        ("0.32.0", "10.0", "bfloat16", None, 32),
        ("0.32.0", "9.0", "bfloat16", 64, 64),
        ("0.15.1", "9.0", "bfloat16", None, 64),
        ("0.15.1", "10.0", "bfloat16", None, 64),
        ("0.11.0", "10.0", "bfloat16", None, 128),
        ("0.11.0", "8.0", "bfloat16", None, 16),
    ],
)
def test_the_latent_block_is_raised_to_what_the_backend_needs(
    version: str, capability: str, dtype: str, requested: int | None, expected: int
) -> None:
    found = block(version, capability, (LATENT,), dtype=dtype, requested=requested)
    assert found.tokens == expected


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((FULL,), 16),
        ((INDEXER, LATENT), 64),
        ((SPARSE_KEYS, FULL), 128),
        ((COMPRESSED,), 256),
    ],
)
def test_each_kind_of_sparse_attention_has_its_block(
    groups: tuple[LayerGroup, ...], expected: int
) -> None:
    assert block("0.32.0", "9.0", groups).tokens == expected
    if groups != (COMPRESSED,):
        assert block("0.32.0", "9.0", groups, requested=512).tokens == 512


def test_longer_blocks_of_compressed_attention_are_not_known() -> None:
    beside = BlockDevice("9.0")
    assert block("0.32.0", "9.0", (COMPRESSED,), requested=256).tokens == 256
    refusal = block_size(rules("0.32.0"), 512, (COMPRESSED,), cache(), beside)
    assert isinstance(refusal, Refusal)
    assert "256 alone" in refusal.message


def test_without_a_capability_the_latent_block_is_an_assumption() -> None:
    found = block("0.32", "", (LATENT,), dtype="fp8")
    assert (found.tokens, bool(found.assumption)) == (64, True)


@pytest.mark.parametrize("requested", [-16, 0, 8, 17, 1 << 20])
def test_a_block_no_backend_takes_is_refused(requested: int) -> None:
    refusal = block_size(rules("0.32"), requested, (FULL,), cache(), BlockDevice("9.0"))
    assert isinstance(refusal, Refusal)
    assert refusal.field == "--block-size"


@given(
    elements=st.integers(1, 1 << 22),
    requested=st.sampled_from([None, 16, 32, 128]),
    grid=st.sampled_from([1, 64]),
)
def test_a_page_beside_states_is_the_shortest_that_holds_one(
    elements: int, requested: int | None, grid: int
) -> None:
    groups = (state(elements), FULL)
    found = block("0.33.0", "9.0", groups, requested=requested, grid=grid)
    size = RULES[LayerKind.MAMBA2].page_bytes(groups[0], 1, cache())
    token = RULES[LayerKind.FULL_ATTENTION].page_bytes(FULL, 1, cache())
    step = max(requested or 16, grid)
    assert found.state_page == found.tokens * token >= size
    assert found.tokens % (requested or 16) == 0
    assert found.tokens == (requested or 16) or (found.tokens - step) * token < size


def test_latents_beside_states_have_blocks_of_128() -> None:
    found = block("0.32.0", "9.0", (state(1 << 18), LATENT))
    assert found.tokens % 128 == 0
    assert found.state_page == found.tokens * 1152


def test_states_alone_are_not_padded() -> None:
    assert block("0.32.0", "9.0", (state(1 << 18),)) == BlockSize(16, "default")
