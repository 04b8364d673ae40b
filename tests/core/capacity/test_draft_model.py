"""A draft model beside the model: its layers in the pool, its weights on the last stage."""

from typing import Any

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.drafting import method_of
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

GIB = 1 << 30
DEVICE = Device("huge", 8 << 40, compute_capability="9.0")
LLAMA, SMALL = "meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"


def capacity(model: str = LLAMA, draft: str = SMALL, **more: Any) -> EngineCapacity | Refusal:
    settings = {
        "version": "0.32",
        "max_model_len": 8192,
        "speculative_method": "draft_model",
        "speculative_model": draft,
        "speculative_tokens": 4,
        **more,
    }
    shape = preset(model)
    assert isinstance(shape, ModelShape)
    return engine_capacity(shape, EngineConfig(**settings), DEVICE, 16 * GIB)


def fits(**more: Any) -> EngineCapacity:
    found = capacity(**more)
    assert isinstance(found, EngineCapacity), found
    return found


def alone(model: str, **more: Any) -> EngineCapacity:
    """The model without speculation."""
    return fits(model=model, speculative_method="", speculative_tokens=0, draft="", **more)


def test_weights_and_pages_of_both_are_counted() -> None:
    both, first, second = fits(), alone(LLAMA), alone(SMALL)
    assert (
        both.weight_bytes_per_device
        == first.weight_bytes_per_device + second.weight_bytes_per_device
    )
    assert both.bytes_per_block == first.bytes_per_block + second.bytes_per_block
    assert f"the draft model {SMALL} is counted, by its public config" in both.assumptions


def test_an_unknown_draft_is_told_and_not_counted() -> None:
    both, first = fits(draft="org/unknown-draft"), alone(LLAMA)
    assert both.kv_blocks == first.kv_blocks
    assert any("org/unknown-draft (draft_model) is not known" in one for one in both.assumptions)


@pytest.mark.parametrize(
    ("more", "reason", "says"),
    [
        ({"draft": "Qwen/Qwen3-0.6B"}, "InvalidSpeculation", "128256"),
        (
            {"model": "Qwen/Qwen3-32B", "draft": "Qwen/Qwen2.5-1.5B", "tensor_parallel": 8},
            "InvalidParallelism",
            "the draft model Qwen/Qwen2.5-1.5B's 12 attention heads",
        ),
        ({"version": "0.14.1"}, "UnsupportedEngineVersion", "a draft model"),
        ({"pipeline_parallel": 2}, "InvalidSpeculation", "--pipeline-parallel-size"),
        (
            {"model": "Qwen/Qwen3.5-27B", "draft": "Qwen/Qwen3.5-9B"},
            "InvalidSpeculation",
            "prediction layers",
        ),
        (
            {"model": "Qwen/Qwen3-32B", "draft": "Qwen/Qwen3-30B-A3B"},
            "InvalidSpeculation",
            "mixture of experts",
        ),
    ],
)
def test_what_the_engine_does_not_start_with_is_refused(
    more: dict[str, Any], reason: str, says: str
) -> None:
    found = capacity(**more)
    assert isinstance(found, Refusal)
    assert found.reason == reason
    assert says in found.message


@pytest.mark.parametrize(
    ("stated", "model", "method"),
    [
        ("", "meta-llama/Llama-3.2-1B-Instruct", "draft_model"),
        ("draft_model", "meta-llama/Llama-3.2-1B-Instruct", "draft_model"),
        ("", "yuhuili/EAGLE-LLaMA3-Instruct-8B", "eagle"),
        ("", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3"),
        ("draft_model", "AngelSlim/Qwen3-8B_eagle3", "eagle3"),
        ("", "deepseek-ai/dspark_qwen3_8b_block7", "dspark"),
        ("", "z-lab/Qwen3-8B-DFlash-b16", "dflash"),
        ("", "ngram", "ngram"),
        ("mtp", "org/anything", "mtp"),
        ("", "", ""),
    ],
)
def test_a_method_left_open_is_told_by_the_name(stated: str, model: str, method: str) -> None:
    """As vllm v0.32.0 config/speculative.py does."""
    assert method_of(stated, model) == method


def test_ranks_that_share_tokens_are_counted_over_the_models_own_heads() -> None:
    """Qwen3-235B has 4 KV heads, its draft 8; vLLM 0.32 allocates 17,189 blocks."""
    more = {"tensor_parallel": 8, "decode_context_parallel": 2}
    found = fits(model="Qwen/Qwen3-235B-A22B", draft="Qwen/Qwen3-0.6B", **more)
    assert found.kv_blocks.expected > 0


def test_an_eagle3_head_has_an_output_of_its_own() -> None:
    """0.82 GiB beside Llama-3.1-8B, as vLLM 0.32 builds it; its layer alone would be 0.44."""
    model = "meta-llama/Llama-3.1-8B-Instruct"
    head = fits(model=model, draft="", speculative_method="eagle3").weight_bytes_per_device
    assert (head - alone(model).weight_bytes_per_device) / GIB == pytest.approx(0.82, rel=0.05)
