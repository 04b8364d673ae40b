"""One reading of the layers: what caches are counted for is what weights are counted for."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvscale.core.model.config_json import read_shape
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.layers.plan import layer_mixers
from kvscale.core.model.shape import LayerKind, ModelShape

DATA = Path(__file__).parents[3] / "data"
CONFIGS = {
    path.parent.name: json.loads(path.read_text())
    for folder in ("hf_configs", "recalled_configs")
    for path in sorted((DATA / folder).glob("*/config.json"))
}
BESIDE = "Zamba2ForCausalLM"
"""Its blocks of attention lie beside the layers, which share them."""

ATTENDING = {
    LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL, LayerKind.MLA,
    LayerKind.SLIDING_WINDOW_MLA,
}  # fmt: skip
RECURRENT = {kind for kind in LayerKind if kind.recurrent}
FULL, WINDOW = Mixer.FULL, Mixer.SLIDING
SHARED, SHARED_WINDOW = Mixer.SHARED, Mixer.SHARED_SLIDING


def mixers(architecture: str, layers: int, **config: Any) -> list[Mixer]:
    return list(layer_mixers(Fields(config), architecture, layers))


def places(shape: ModelShape, name: str) -> set[int]:
    """Layers that have parameters of that name."""
    found: set[int] = set()
    for group in shape.weight_groups:
        if group.name == name and group.stage == "all":
            span = range(*(group.layer_span or (0, shape.depth)))
            found |= set(group.layer_positions or span)
    return found


def cached(shape: ModelShape, kinds: set[LayerKind]) -> set[int]:
    """Layers that keep something of these kinds."""
    found: set[int] = set()
    for group in shape.layer_groups:
        if group.kind in kinds:
            found |= set(group.positions or range(shape.depth))
    return found


@pytest.mark.parametrize(
    "name", sorted(name for name in CONFIGS if CONFIGS[name]["architectures"] != [BESIDE])
)
def test_a_layer_has_the_matrices_of_what_it_keeps(name: str) -> None:
    shape = read_shape(CONFIGS[name], name)
    assert isinstance(shape, ModelShape)
    projected = places(shape, "attentionKV") | places(shape, "attentionDown")
    assert projected == cached(shape, ATTENDING)
    assert places(shape, "recurrent") == cached(shape, RECURRENT)
    assert places(shape, "indexer") == cached(shape, {LayerKind.SPARSE_INDEXER})


def test_a_tail_that_shares_caches_keeps_its_windows() -> None:
    found = mixers(
        "Gemma4ForCausalLM", 4, num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip
    assert found == [WINDOW, FULL, SHARED_WINDOW, SHARED]


def test_gemma_4_without_names_has_five_windows_to_a_full_layer_and_ends_in_one() -> None:
    assert mixers("Gemma4ForCausalLM", 8) == [*[WINDOW] * 5, FULL, WINDOW, FULL]


def test_nemotrons_separators_are_no_layers() -> None:
    found = mixers("NemotronHForCausalLM", 3, hybrid_override_pattern="M|*|E")
    assert found == [Mixer.MAMBA2, FULL, Mixer.NONE]


@pytest.mark.parametrize(
    ("architecture", "field"),
    [
        ("Zamba2ForCausalLM", "layers_block_type"),
        ("NemotronHForCausalLM", "hybrid_override_pattern"),
        ("MiniMaxText01ForCausalLM", "attn_type_list"),
        ("DeciLMForCausalLM", "block_configs[0].attention"),
    ],
)
def test_a_missing_list_is_refused_by_its_key(architecture: str, field: str) -> None:
    with pytest.raises(Refused) as refused:
        mixers(architecture, 4)
    assert refused.value.refusal.field == field
