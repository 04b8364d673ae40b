"""vLLM's rules of sharing out blocks, by version."""

import pytest

from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.allocation import (
    TableRules,
    keeps_prefixes,
    scheduling,
    state_grid,
    table_rules,
)
from kvscale.core.engines.vllm.rules import Rules, rules_of
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, StatePart

FULL = LayerGroup(LayerKind.FULL_ATTENTION, 8, 8, 128, 128)
ENGINE = EngineConfig()


def state(kind: LayerKind) -> LayerGroup:
    return LayerGroup(kind, 24, 0, 0, 0, state=(StatePart(1, 64),))


def shape(*groups: LayerGroup) -> ModelShape:
    return ModelShape("m", "", 64, 100, 8, groups, ())


HYBRID = shape(state(LayerKind.MAMBA2), FULL)
DELTA = shape(state(LayerKind.GATED_DELTA_NET), FULL)
PLAIN = shape(FULL)


def rules(version: str) -> Rules:
    found = rules_of(version)
    assert isinstance(found, Rules), found
    return found


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.9.0", TableRules(True, False, 1.0, False, False)),
        ("0.9.1", TableRules(False, False, 1.0, False, False)),
        ("0.10.2", TableRules(False, True, 1.0, False, False)),
        ("0.13.0", TableRules(False, True, 1.25, True, False)),
        ("0.14.1", TableRules(False, False, 1.25, True, False)),
        ("0.18.0", TableRules(False, False, 1.5, True, False)),
        ("0.24.0", TableRules(False, False, 1.5, True, True)),
        ("0.32.0", TableRules(False, False, 1.5, True, True)),
    ],
)
def test_each_version_has_its_tables(version: str, expected: TableRules) -> None:
    assert table_rules(rules(version), ENGINE) == expected


def test_without_the_hybrid_manager_windows_are_kept_whole() -> None:
    found = table_rules(rules("0.32.0"), EngineConfig(hybrid_kv_cache_manager=False))
    assert found.keeps_windows_whole


@pytest.mark.parametrize(
    ("version", "stages", "batches"),
    [("0.12.0", 1, 1), ("0.25.0", 1, 1), ("0.26.0", 1, 2), ("0.32.0", 1, 2), ("0.32.0", 4, 5)],
)
def test_windows_hold_the_batches_under_way(version: str, stages: int, batches: int) -> None:
    engine = EngineConfig(pipeline_parallel=stages)
    assert scheduling(rules(version), PLAIN, engine, 2048, "9.0").in_flight == 2048 * batches


@pytest.mark.parametrize(
    ("version", "model", "capability", "blocks"),
    [
        ("0.25.0", HYBRID, "9.0", 1),
        ("0.26.0", HYBRID, "9.0", None),
        ("0.26.0", DELTA, "9.0", 2),
        ("0.28.0", HYBRID, "9.0", 2),
        ("0.32.0", HYBRID, "9.0", 3),
        ("0.32.0", DELTA, "9.0", 2),
        ("0.33.0", DELTA, "9.0", 3),
        ("0.33.0", DELTA, "8.0", 2),
    ],
)
def test_a_state_takes_as_many_blocks_as_the_version_needs(
    version: str, model: ModelShape, capability: str, blocks: int | None
) -> None:
    found = scheduling(rules(version), model, ENGINE, 2048, capability)
    kind = model.layer_groups[0].kind
    total = None if found.state_blocks is None else found.state_blocks + (kind in found.checkpoints)
    assert total == blocks


def test_without_prefix_caching_a_state_is_one_block_and_one_per_draft() -> None:
    for drafts in (0, 3):
        engine = EngineConfig(prefix_caching=False, speculative_tokens=drafts)
        found = scheduling(rules("0.33.0"), HYBRID, engine, 2048, "9.0")
        assert (found.state_blocks, found.checkpoints) == (1 + drafts, frozenset())


def test_prefixes_of_states_alone_are_not_cached() -> None:
    alone = shape(state(LayerKind.MAMBA1))
    assert not keeps_prefixes(rules("0.33.0"), alone, ENGINE)
    assert keeps_prefixes(rules("0.33.0"), HYBRID, ENGINE)
    assert not keeps_prefixes(rules("0.25.0"), HYBRID, ENGINE)


def test_a_block_beside_gated_deltas_lies_on_their_grid() -> None:
    newest = rules("0.33.0")
    assert state_grid(newest, DELTA, ENGINE, "9.0") == 64
    assert state_grid(newest, DELTA, ENGINE, "8.0") == 1
    assert state_grid(newest, DELTA, EngineConfig(prefix_caching=False), "9.0") == 1
    mixed = shape(state(LayerKind.GATED_DELTA_NET), state(LayerKind.SHORT_CONVOLUTION), FULL)
    assert state_grid(newest, mixed, ENGINE, "9.0") == 1


def test_before_0_10_recurrent_states_are_refused() -> None:
    with pytest.raises(Refused, match=r"before 0\.10"):
        scheduling(rules("0.9.2"), HYBRID, ENGINE, 2048, "9.0")
