"""What a release of vLLM does not have yet, or no longer; and speculation that none has."""

from typing import Any

import pytest
from tests.support.starts import refused, starts

from kvscale.core.engines.vllm.drafting import METHODS
from kvscale.core.engines.vllm.releases import ARCHITECTURES, READ, REMOVED, lacks
from kvscale.core.model.architectures.table import ARCHITECTURES as KNOWN

LLAMA = "meta-llama--Meta-Llama-3.1-8B"
NEXT = "Qwen--Qwen3-Next-80B-A3B-Instruct"


def test_the_table_is_of_releases_that_were_read_and_architectures_that_are_known() -> None:
    assert list(READ) == sorted(READ)
    assert set(ARCHITECTURES) | set(REMOVED) <= set(KNOWN)
    assert set(ARCHITECTURES.values()) | set(REMOVED.values()) <= set(READ)


def test_between_two_releases_the_newer_one_counts() -> None:
    assert lacks((0, 8, 0), (0, 8, 5))
    assert not lacks((0, 8, 3), (0, 8, 5))
    assert not lacks((0, 8, 5), (0, 8, 5))
    assert not lacks((0, 8, 0), (0, 8, 0))
    assert not lacks((0, 10, 9_999), (0, 10, 2))


@pytest.mark.parametrize(
    ("name", "before", "first", "more"),
    [
        ("deepseek-ai--DeepSeek-V4-Flash", "0.8.5", "0.20.0", {"tensor_parallel": 4}),
        ("deepseek-ai--DeepSeek-V3.2", "0.10.0", "0.11.0", {"tensor_parallel": 8}),
        ("openai--gpt-oss-20b", "0.9.0", "0.10.1", {}),
        (NEXT, "0.10.0", "0.10.2", {"tensor_parallel": 4}),
        (LLAMA, "0.8.5", "0.20.0", {"kv_cache_dtype": "nvfp4"}),
        (LLAMA, "0.19.1", "0.20.0", {"kv_cache_dtype": "int8_per_token_head"}),
        (LLAMA, "0.8.5", "0.11.2", {"tensor_parallel": 16, "decode_context_parallel": 2}),
        (LLAMA, "0.8.5", "0.14.1", {"max_model_len": -1}),
        (
            "deepseek-ai--DeepSeek-V2-Lite", "0.8.5", "0.10.2",
            {"tensor_parallel": 2, "decode_context_parallel": 2},
        ),
    ],
)  # fmt: skip
def test_a_release_before_the_first_is_refused_by_name(
    name: str, before: str, first: str, more: dict[str, Any]
) -> None:
    refusal = refused(name, "10.0", version=before, **more)
    assert (refusal.reason, refusal.field) == ("UnsupportedEngineVersion", "engine.version")
    assert first in refusal.message
    starts(name, "10.0", version=first, **more)
    starts(name, "10.0", version=None, **more)


def test_the_known_architecture_is_named() -> None:
    message = refused("openai--gpt-oss-20b", version="0.9.0").message
    assert message.startswith("vLLM 0.9.0 does not know the architecture GptOssForCausalLM")


def test_a_release_without_a_patch_is_its_last() -> None:
    starts("openai--gpt-oss-20b", version="0.10")
    refused("openai--gpt-oss-20b", version="0.9")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (LLAMA, {"speculative_method": "frob", "speculative_tokens": 2}),
        (LLAMA, {"speculative_method": "ngram", "speculative_tokens": -1}),
        (LLAMA, {"speculative_tokens": -1}),
        (LLAMA, {"speculative_tokens": 3}),
        (LLAMA, {"speculative_method": "eagle3"}),
        (LLAMA, {"speculative_method": "draft_model", "speculative_tokens": 3}),
        (LLAMA, {"speculative_method": "mtp", "speculative_tokens": 1}),
        (LLAMA, {"speculative_method": "deepseek_mtp", "speculative_tokens": 1}),
    ],
)
def test_speculation_that_cannot_be_is_refused(name: str, more: dict[str, Any]) -> None:
    refusal = refused(name, **more)
    assert (refusal.reason, refusal.field) == ("InvalidSpeculation", "--speculative-config")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (LLAMA, {"speculative_method": "ngram", "speculative_tokens": 2}),
        (LLAMA, {"speculative_method": "eagle3", "speculative_tokens": 3}),
        (LLAMA, {"speculative_method": "suffix"}),
        (NEXT, {"speculative_method": "mtp", "tensor_parallel": 4}),
        (LLAMA, {}),
        (NEXT, {"speculative_method": "mtp", "speculative_tokens": 2, "tensor_parallel": 4}),
        (NEXT, {"speculative_method": "qwen3_next_mtp", "speculative_tokens": 1,
                "tensor_parallel": 4}),
    ],
)  # fmt: skip
def test_speculation_that_can_be_starts(name: str, more: dict[str, Any]) -> None:
    starts(name, **more)


def test_every_method_that_is_offered_is_known() -> None:
    assert {"mtp", "eagle", "eagle3", "ngram", "suffix", "medusa", "draft_model"} <= METHODS
