"""vLLM's rules by version, and its overhead against boot logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.device import Device
from kvscale.core.engines.vllm import Rules, batch_defaults, block_size, printed_tokens, rules_of
from kvscale.core.engines.vllm_memory import overhead
from kvscale.core.model.dtypes import kv_dtype
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape

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
        ("0.20.0", 900, False, False, False),
        ("0.20.1", 900, False, True, False),
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
    kv = kv_dtype(dtype)
    assert kv is not None
    block = block_size(rules(version), requested, kv, capability, latent=True)
    assert not isinstance(block, Refusal)
    assert block.tokens == expected


def test_without_a_capability_the_latent_block_is_an_assumption() -> None:
    kv = kv_dtype("fp8")
    assert kv is not None
    block = block_size(rules("0.32"), None, kv, "", latent=True)
    assert not isinstance(block, Refusal)
    assert (block.tokens, bool(block.assumption)) == (64, True)


@pytest.mark.parametrize("requested", [-16, 0, 8, 17, 1 << 20])
def test_a_block_no_backend_takes_is_refused(requested: int) -> None:
    kv = kv_dtype("bfloat16")
    assert kv is not None
    refusal = block_size(rules("0.32"), requested, kv, "9.0", latent=False)
    assert isinstance(refusal, Refusal)
    assert refusal.field == "--block-size"


def test_the_printed_tokens_changed_their_meaning() -> None:
    # 1,000 blocks of 16, sequences of 100 tokens take 7 blocks.
    assert printed_tokens(rules("0.20.0"), 1000, 16, 7, 100) == 16_000
    assert printed_tokens(rules("0.20.1"), 1000, 16, 7, 100) == 14_285


def llama_like(hidden: int, width: int, vocabulary: int) -> ModelShape:
    group = LayerGroup(LayerKind.FULL_ATTENTION, 1, 8, 128, 128)
    return ModelShape("logged", "", hidden, vocabulary, 64, (group,), (), feed_forward_width=width)


# GiB without CUDA graphs, from the logs that the table in vllm_memory.py names.
LOGGED = {
    "Llama-3.3-70B tp2 0.11": (8192, 3 * 28672, 128256, "0.11.0", 2, 8192, 1024, 5.38),
    "Qwen3-0.6B 0.11": (1024, 3 * 3072, 151936, "0.11.0", 1, 8192, 1024, 5.69),
    "gpt-oss-20b 0.11": (2880, 4 * 4 * 2880, 201088, "0.11.0", 1, 8192, 1024, 7.5),
    "Mistral-Small 0.11": (5120, 3 * 32768, 131072, "0.11.0", 1, 8192, 1024, 2.26),
    "Llama-3.1-70B tp4": (8192, 3 * 28672, 128256, "0.15.1", 4, 2048, 128, 1.24),
    "Mistral-Nemo tp2": (5120, 3 * 14336, 131072, "0.15.1", 2, 1024, 128, 1.25),
    "Yi-34B tp2": (7168, 3 * 20480, 64000, "0.15.1", 2, 2048, 128, 1.16),
    "Llama-2-70B tp4": (8192, 3 * 28672, 32000, "0.15.1", 4, 2048, 128, 0.86),
    "CodeLlama-34B tp2": (8192, 3 * 22016, 32000, "0.15.1", 2, 2048, 128, 0.87),
    "Llama-2-7B": (4096, 3 * 11008, 32000, "0.15.1", 1, 2048, 128, 0.41),
    "Llama-3.1-8B A5000": (4096, 3 * 14336, 128256, "0.15.1", 1, 2048, 256, 1.35),
    "Llama-3.3-70B tp8 32": (8192, 3 * 28672, 128256, "0.19.1", 8, 8192, 32, 2.21),
    "Llama-3.3-70B tp8 256": (8192, 3 * 28672, 128256, "0.19.1", 8, 8192, 256, 2.22),
    "Qwen2.5-7B 3090": (3584, 3 * 18944, 152064, "0.19.1", 1, 2048, 256, 0.60),
}


@pytest.mark.parametrize("name", LOGGED)
def test_a_logged_overhead_lies_in_the_band(name: str) -> None:
    hidden, width, vocabulary, version, tp, tokens, seqs, observed = LOGGED[name]
    band = overhead(
        llama_like(hidden, width, vocabulary), rules(version), tp, tokens, seqs, enforce_eager=True
    ).total
    assert band.low / GIB <= observed <= band.high / GIB


def test_most_logged_overheads_are_met_within_a_fifth() -> None:
    off = []
    for name, (hidden, width, vocabulary, version, tp, tokens, seqs, observed) in LOGGED.items():
        shape = llama_like(hidden, width, vocabulary)
        found = overhead(shape, rules(version), tp, tokens, seqs, enforce_eager=True).total
        if abs(found.expected / GIB / observed - 1) > 0.2:
            off.append(name)
    assert off == ["Mistral-Small 0.11"]


def test_graphs_count_from_0_20_2_and_not_when_eager() -> None:
    shape = llama_like(4096, 3 * 14336, 128256)
    for version, eager, counted in (
        ("0.19.1", False, False),
        ("0.20.2", False, True),
        ("0.20.2", True, False),
    ):
        found = overhead(shape, rules(version), 1, 8192, 256, enforce_eager=eager)
        assert (found.graphs.expected > 0) is counted


def test_a_shape_without_a_feed_forward_width_is_assumed_and_said() -> None:
    found = overhead(llama_like(4096, 0, 1000), rules("0.32"), 1, 8192, 1, enforce_eager=True)
    assert found.forward == 8192 * (3 * 4096 + 12 * 4096) * 2
    assert found.assumptions
