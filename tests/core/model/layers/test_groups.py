"""Layers of every kind, read from configs as models publish them."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.groups import layer_groups
from kvscale.core.model.layers.mixer import Mixers
from kvscale.core.model.layers.plan import READINGS, layer_mixers
from kvscale.core.model.shape import LayerGroup, LayerKind


@dataclass(frozen=True)
class Latent:
    kv_rank: int = 512
    rope: int = 64


@dataclass(frozen=True)
class Heads:
    layers: int
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    latent: Latent | None = None
    mixers: Mixers = ()


def groups(
    architecture: str, config: dict[str, Any], d: Heads, *, switch: bool = False
) -> tuple[LayerGroup, ...]:
    text = Fields(config)
    d = replace(d, mixers=layer_mixers(text, architecture, d.layers))
    return layer_groups(text, architecture, d, needs_switch=switch)


def kinds(found: tuple[LayerGroup, ...]) -> list[tuple[LayerKind, int]]:
    return [(group.kind, group.layers) for group in found]


FULL, WINDOW, CHUNK = (
    LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL,
)  # fmt: skip
MAMBA = {
    "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
    "mamba_d_conv": 4, "mamba_expand": 2, "hidden_size": 4096,
}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "config", "layers", "expected"),
    [
        ("Gemma2ForCausalLM", {"sliding_window": 4096}, 26, [(WINDOW, 13), (FULL, 13)]),
        ("Gemma3ForCausalLM", {"sliding_window": 1024}, 62, [(WINDOW, 52), (FULL, 10)]),
        (
            "Gemma3nForCausalLM",
            {"sliding_window": 512, "num_kv_shared_layers": 10,
             "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 6},
            30,
            [(WINDOW, 16), (FULL, 4)],
        ),
        ("Cohere2ForCausalLM", {"sliding_window": 4096}, 32, [(WINDOW, 24), (FULL, 8)]),
        ("Olmo3ForCausalLM", {"sliding_window": 4096}, 64, [(WINDOW, 48), (FULL, 16)]),
        (
            "Exaone4ForCausalLM",
            {"sliding_window": 4096, "sliding_window_pattern": "LLLG"},
            64,
            [(WINDOW, 48), (FULL, 16)],
        ),
        ("Exaone4ForCausalLM", {"sliding_window": None}, 30, [(FULL, 30)]),
        ("GptOssForCausalLM", {"sliding_window": 128}, 24, [(WINDOW, 12), (FULL, 12)]),
        ("Llama4ForCausalLM", {"attention_chunk_size": 8192}, 48, [(CHUNK, 36), (FULL, 12)]),
        (
            "Llama4ForCausalLM",
            {"attention_chunk_size": 8192, "no_rope_layers": [0, 1] * 2},
            4,
            [(FULL, 2), (CHUNK, 2)],
        ),
        ("MixtralForCausalLM", {"sliding_window": 4096}, 32, [(WINDOW, 32)]),
        ("LlamaForCausalLM", {"sliding_window": 0}, 32, [(FULL, 32)]),
        (
            "JambaForCausalLM",
            {"hidden_size": 4096, "attn_layer_period": 8, "attn_layer_offset": 4},
            32,
            [(LayerKind.MAMBA1, 28), (FULL, 4)],
        ),
        (
            "BambaForCausalLM",
            {**MAMBA, "attn_layer_indices": [9, 18, 27]},
            32,
            [(LayerKind.MAMBA2, 29), (FULL, 3)],
        ),
        ("FalconH1ForCausalLM", MAMBA, 44, [(LayerKind.MAMBA2, 44), (FULL, 44)]),
        (
            "GraniteMoeHybridForCausalLM",
            {**MAMBA, "layer_types": (["mamba"] * 9 + ["attention"]) * 4},
            40,
            [(LayerKind.MAMBA2, 36), (FULL, 4)],
        ),
        (
            "Zamba2ForCausalLM",
            {"hidden_size": 2560, "n_mamba_heads": 80, "mamba_headdim": 64, "mamba_ngroups": 1,
             "mamba_d_state": 64, "layers_block_type": (["mamba"] * 5 + ["hybrid"]) * 9},
            54,
            [(LayerKind.MAMBA2, 54), (FULL, 9)],
        ),
        (
            "Lfm2ForCausalLM",
            {"conv_dim": 2048, "conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
            16,
            [(LayerKind.SHORT_CONVOLUTION, 10), (FULL, 6)],
        ),
        (
            "MiniMaxText01ForCausalLM",
            {"num_attention_heads": 64, "head_dim": 128, "hidden_size": 6144,
             "attn_type_list": ([0] * 7 + [1]) * 10},
            80,
            [(LayerKind.LINEAR_ATTENTION, 70), (FULL, 10)],
        ),
        (
            "Qwen3NextForCausalLM",
            {"linear_num_key_heads": 16, "linear_key_head_dim": 128,
             "linear_num_value_heads": 32, "linear_value_head_dim": 128},
            48,
            [(LayerKind.GATED_DELTA_NET, 36), (FULL, 12)],
        ),
        (
            "NemotronHForCausalLM",
            {"hybrid_override_pattern": "ME*-", "mamba_num_heads": 64, "mamba_head_dim": 64,
             "n_groups": 8, "ssm_state_size": 128},
            4,
            [(LayerKind.MAMBA2, 1), (FULL, 1)],
        ),
        ("Mamba2ForCausalLM",
         {"hidden_size": 4096, "num_heads": 128, "head_dim": 64, "state_size": 128},
         64, [(LayerKind.MAMBA2, 64)]),
        ("FalconMambaForCausalLM",
         {"intermediate_size": 8192, "state_size": 16}, 64, [(LayerKind.MAMBA1, 64)]),
    ],
)  # fmt: skip
def test_layers_of_each_kind_are_counted(
    architecture: str,
    config: dict[str, Any],
    layers: int,
    expected: list[tuple[LayerKind, int]],
) -> None:
    found = groups(architecture, config, Heads(layers))
    assert kinds(found) == expected


def test_layers_of_a_mix_know_their_places() -> None:
    window, full = groups("Gemma3ForCausalLM", {"sliding_window": 1024}, Heads(12))
    assert full.positions == (5, 11)
    assert sorted((*window.positions, *full.positions)) == list(range(12))


def test_coheres_window_leaves_the_token_itself_out() -> None:
    window, _ = groups("Cohere2ForCausalLM", {"sliding_window": 4096}, Heads(8))
    assert window.window == 4097


def test_gemma_4_has_heads_of_its_own_on_full_layers() -> None:
    config = {
        "sliding_window": 1024, "attention_k_eq_v": True, "num_global_key_value_heads": 2,
        "global_head_dim": 512, "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    window, full = groups("Gemma4ForCausalLM", config, Heads(2, head_dim=256))
    assert (window.kv_heads, window.head_dim_k, window.head_dim_v) == (8, 256, 256)
    assert (full.kv_heads, full.head_dim_k, full.head_dim_v) == (2, 512, 512)
    _, same = groups("Gemma4ForCausalLM", config | {"attention_k_eq_v": False}, Heads(2))
    assert same.kv_heads == 8


def test_searched_layers_have_heads_each_or_none() -> None:
    def block(**attention: Any) -> dict[str, Any]:
        return {"attention": attention}

    config = {"block_configs": [
        block(n_heads_in_group=8), block(no_op=True), block(n_heads_in_group=4),
        block(replace_with_linear=True), block(n_heads_in_group=8),
    ]}  # fmt: skip
    found = groups("DeciLMForCausalLM", config, Heads(5, heads=64))
    assert [(g.kv_heads, g.positions) for g in found] == [(8, (0, 4)), (16, (2,))]


def test_only_layers_with_an_indexer_keep_its_keys() -> None:
    latent = Heads(78, latent=Latent())
    config: dict[str, Any] = {"index_topk": 2048, "index_head_dim": 128}
    indexer, mla = groups("GlmMoeDsaForCausalLM", config, latent)
    assert kinds((indexer, mla)) == [(LayerKind.SPARSE_INDEXER, 78), (LayerKind.MLA, 78)]
    assert (indexer.head_dim_k, mla.head_dim_k) == (132, 576)
    sparse = config | {"index_topk_freq": 4, "index_skip_topk_offset": 3}
    indexer, _ = groups("GlmMoeDsaForCausalLM", sparse, latent)
    assert indexer.layers == 21
    assert indexer.positions[:5] == (0, 1, 2, 6, 10)
    indexer, _ = groups("GlmMoeDsaForCausalLM", config | {"index_topk_pattern": "FSS"}, latent)
    assert indexer.positions == (0, *range(3, 78))


def test_kimis_places_count_from_one() -> None:
    config = {"linear_attn_config": {
        "kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 32, "head_dim": 128,
        "short_conv_kernel_size": 4,
    }}  # fmt: skip
    delta, mla = groups("KimiLinearForCausalLM", config, Heads(4, latent=Latent()))
    assert (delta.positions, mla.positions) == ((0, 1, 2), (3,))
    assert [part.dtype for part in delta.state] == ["", "float32"]


@pytest.mark.parametrize(
    ("architecture", "config", "field"),
    [
        ("LlamaForCausalLM", {"layer_types": ["mamba"] * 4}, "layer_types"),
        ("Qwen3NextForCausalLM", {"layer_types": ["conv"] * 4}, "layer_types"),
        ("NemotronHForCausalLM", {"hybrid_override_pattern": "MQ*-"}, "hybrid_override_pattern"),
        ("NemotronHForCausalLM", {"hybrid_override_pattern": "M*"}, "hybrid_override_pattern"),
        ("MiMoV2FlashForCausalLM", {"hybrid_layer_pattern": [0]}, "hybrid_layer_pattern"),
        ("DeepseekV4ForCausalLM",
         {"head_dim": 512, "index_head_dim": 128, "sliding_window": 128,
          "compress_ratios": [0, 0, 7, 4]}, "compress_ratios"),
        ("Gemma3ForCausalLM", {"sliding_window": "wide"}, "sliding_window"),
        ("FalconH1ForCausalLM", {**MAMBA, "mamba_n_heads": 0}, "mamba_n_heads"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_key(
    architecture: str, config: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        groups(architecture, config, Heads(4))
    assert refused.value.refusal.field == field


_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 1 << 40), st.text(max_size=5),
    st.lists(st.one_of(st.integers(-2, 9), st.text(max_size=3), st.none()), max_size=6),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
_KEYS = (
    "layer_types", "sliding_window", "sliding_window_pattern", "attention_chunk_size",
    "no_rope_layers", "hybrid_layer_pattern", "hybrid_override_pattern", "layers_block_type",
    "full_attention_interval", "linear_attn_config", "attn_type_list", "num_kv_shared_layers",
    "block_configs", "compress_ratios", "index_topk", "index_topk_pattern", "mamba_d_head",
    "sparse_attention_config", "attn_layer_indices", "full_attn_idxs", "hidden_size",
)  # fmt: skip


@given(
    architecture=st.sampled_from(
        [*READINGS, "LlamaForCausalLM", "DeciLMForCausalLM", "DeepseekV4ForCausalLM",
         "MiniMaxM3SparseForConditionalGeneration", "GlmMoeDsaForCausalLM"]
    ),
    config=st.dictionaries(st.sampled_from(_KEYS), _JUNK, max_size=6),
    layers=st.integers(1, 8),
    switch=st.booleans(),
)  # fmt: skip
def test_no_config_raises_anything_but_a_refusal(
    architecture: str, config: dict[str, Any], layers: int, *, switch: bool
) -> None:
    try:
        found = groups(architecture, config, Heads(layers), switch=switch)
    except Refused:
        return
    assert all(group.layers > 0 for group in found)
