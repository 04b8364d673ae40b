"""vLLM's rules by version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.devices.device import Device
from kvscale.core.engines.vllm.rules import (
    Rules,
    batch_defaults,
    printed_tokens,
    rules_of,
    second_runner,
)
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.refusal import Refusal

GIB = 1 << 30


def rules(version: str | None) -> Rules:
    found = rules_of(version)
    assert isinstance(found, Rules), found
    return found


@pytest.mark.parametrize(
    ("version", "milli", "graphs", "by_concurrency", "large"),
    [
        ("0.8", 900, False, False, False),
        ("0.11.0", 900, False, False, False),
        ("0.15.1", 900, False, False, False),
        ("v0.19.1", 900, False, False, False),
        ("0.19.2rc1.dev134+gfe9c3d6c5", 900, False, False, False),
        ("0.20.0", 920, True, False, False),
        ("0.20.1", 920, True, True, False),
        ("0.20.2", 920, True, True, False),
        ("0.20", 920, True, True, False),
        ("0.26.0", 920, True, True, False),
        ("0.27.0", 920, True, True, False),
        ("0.28.0", 920, True, True, True),
        ("0.33.0", 920, True, True, True),
    ],
)
def test_each_version_has_its_rules(
    version: str, milli: int, *, graphs: bool, by_concurrency: bool, large: bool
) -> None:
    found = rules(version)
    assert found.memory_utilization_milli == milli
    assert found.deducts_graphs is graphs
    assert found.tokens_by_concurrency is by_concurrency
    assert found.large_tier is large
    assert found.assumptions == ()


@pytest.mark.parametrize(
    "version", [None, "latest", "0.1.dev15917+g0a6396b45", "sha256:1", "0.40.0"]
)
def test_an_unknown_version_takes_the_newest_rules_and_says_so(version: str | None) -> None:
    found = rules(version)
    assert (found.memory_utilization_milli, found.large_tier) == (920, True)
    assert len(found.assumptions) == 1


@pytest.mark.parametrize("version", ["0.7.3", "0.6.0"])
def test_versions_before_v1_are_refused(version: str) -> None:
    refusal = rules_of(version)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("UnsupportedEngineVersion", "engine.version")


@given(st.text(max_size=30))
def test_no_version_raises(version: str) -> None:
    assert isinstance(rules_of(version), Rules | Refusal)


@pytest.mark.parametrize(
    ("product", "gib", "version", "expected"),
    [
        ("NVIDIA-L4", 22.3, "0.33", (2048, 256)),
        ("NVIDIA-H100-80GB-HBM3", 79.2, "0.33", (8192, 1024)),
        ("NVIDIA-A100-SXM4-80GB", 79.2, "0.33", (2048, 256)),
        ("NVIDIA-GB10", 121.6, "0.33", (2048, 256)),
        ("NVIDIA-GB10", 121.6, "0.32.0", (8192, 1024)),
        ("NVIDIA-H100-80GB-HBM3", 79.2, "0.8.0", (8192, 1024)),
        ("NVIDIA-H200", 139.8, "0.33", (8192, 1024)),
        ("NVIDIA-B200", 177.3, "0.33", (16384, 1024)),
        ("NVIDIA-B200", 177.3, "0.27.0", (8192, 1024)),
        ("AMD-Instinct-MI300X", 192, "0.28.0", (16384, 1024)),
    ],
)
def test_the_batch_defaults_follow_the_device(
    product: str, gib: float, version: str, expected: tuple[int, int]
) -> None:
    assert batch_defaults(rules(version), Device(product, int(gib * GIB))) == expected


def test_the_printed_tokens_changed_their_meaning() -> None:
    # 1,000 blocks of 16, sequences of 100 tokens take 7 blocks.
    assert printed_tokens(rules("0.20.0"), 1000, 16, 7, 100) == 16_000
    assert printed_tokens(rules("0.20.1"), 1000, 16, 7, 100) == 14_285


def test_the_old_printed_tokens_are_those_of_one_table_times_the_ranks() -> None:
    # Gemma-4-26B-A4B on a GB10, vLLM 0.20.0: 72,138 blocks, six tables, 192,368 tokens printed.
    assert printed_tokens(rules("0.20.0"), 72_138, 16, 7, 100, tables=6) == 192_368
    assert printed_tokens(rules("0.12.0"), 1000, 16, 7, 100, ranks=8) == 128_000
    # The newer meaning has both in the blocks of a sequence.
    assert printed_tokens(rules("0.21.0"), 1000, 16, 7, 100, tables=6, ranks=8) == 14_285


@pytest.mark.parametrize(
    ("version", "context", "communicators", "buffers", "sampler"),
    [
        ("0.9.0", True, True, False, 38),
        ("0.9.1", False, True, False, 38),
        ("0.10.2", False, True, False, 38),
        ("0.11.0", False, False, False, 38),
        ("0.16.0", False, False, False, 38),
        ("0.17.0", False, False, False, 16),
        ("0.26.0", False, False, False, 16),
        ("0.27.0", False, False, True, 16),
    ],
)
def test_each_version_counts_its_own_terms(
    version: str, sampler: int, *, context: bool, communicators: bool, buffers: bool
) -> None:
    found = rules(version)
    assert found.counts_context is context
    assert found.counts_communicators is communicators
    assert found.counts_buffers is buffers
    assert found.sampler_bytes == sampler


def model(architecture: str, kind: LayerKind, *, experts: bool = False) -> ModelShape:
    parts = (WeightGroup("experts", 8, 16_000),) if experts else ()
    return ModelShape("", architecture, 64, 64, 8, (LayerGroup(kind, 1, 8, 8, 8),), parts)


@pytest.mark.parametrize(
    ("version", "architecture", "kind", "experts", "second"),
    [
        ("0.21.0", "Qwen3ForCausalLM", LayerKind.FULL_ATTENTION, False, False),
        ("0.22.1", "Qwen3ForCausalLM", LayerKind.FULL_ATTENTION, False, True),
        ("0.22.1", "LlamaForCausalLM", LayerKind.FULL_ATTENTION, False, False),
        ("0.23.0", "LlamaForCausalLM", LayerKind.FULL_ATTENTION, False, True),
        ("0.24.0", "DeepseekV2ForCausalLM", LayerKind.MLA, True, True),
        ("0.26.0", "Qwen2ForCausalLM", LayerKind.FULL_ATTENTION, False, True),
        ("0.26.0", "GptOssForCausalLM", LayerKind.FULL_ATTENTION, True, False),
        ("0.28.0", "NemotronHForCausalLM", LayerKind.MAMBA2, False, False),
        ("0.29.0", "NemotronHForCausalLM", LayerKind.MAMBA2, True, True),
    ],
)
def test_the_second_runner_came_model_by_model(
    version: str, architecture: str, kind: LayerKind, *, experts: bool, second: bool
) -> None:
    shape = model(architecture, kind, experts=experts)
    assert second_runner(rules(version), shape) is second
