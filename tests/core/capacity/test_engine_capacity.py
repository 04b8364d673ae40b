"""The capacity of an engine: textbook numbers, refusals, parallelism, and what must be monotone."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity, sequences_at
from kvscale.core.capacity.placement import Stage, stages, weight_parts
from kvscale.core.devices.device import Device
from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import bytes_per_token
from kvscale.core.model.dtypes import KvDtype, kv_dtype
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.refusal import Refusal
from kvscale.core.trace import find

GIB = 1 << 30
H100 = Device("NVIDIA-H100-80GB-HBM3", round(79.18 * GIB), compute_capability="9.0")
L4 = Device("NVIDIA-L4", round(22.27 * GIB), compute_capability="8.9")


def model(name: str = "meta-llama/Llama-3.1-8B") -> ModelShape:
    shape = preset(name)
    assert isinstance(shape, ModelShape)
    return shape


def kv(name: str) -> KvDtype:
    found = kv_dtype(name)
    assert found is not None
    return found


def capacity(
    shape: ModelShape | None = None, device: Device = H100, memory: int | None = None, **more: Any
) -> EngineCapacity:
    engine = EngineConfig(**({"version": "0.32.0"} | more))
    found = engine_capacity(shape or model(), engine, device, memory)
    assert isinstance(found, EngineCapacity), found
    return found


def refusal(shape: ModelShape | None = None, device: Device = H100, **more: Any) -> Refusal:
    engine = EngineConfig(**({"version": "0.32.0"} | more))
    found = engine_capacity(shape or model(), engine, device)
    assert isinstance(found, Refusal), found
    return found


TEXTBOOK = (LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),)


def test_a_length_that_is_proposed_is_taken():
    """The low end of the band is certain; what is proposed must not be refused again."""
    asked = EngineConfig(max_model_len=131_072)
    refused = engine_capacity(model(), asked, L4)
    assert isinstance(refused, Refusal)
    found = re.search(r"to (\d+), which fits for certain \(up to (\d+) may\)", refused.message)
    assert found is not None, refused.message
    certain, most = int(found[1]), int(found[2])
    taken = engine_capacity(model(), replace(asked, max_model_len=certain), L4)
    assert isinstance(taken, EngineCapacity)
    assert not [line for line in taken.assumptions if "may not fit" in line]
    assert isinstance(
        engine_capacity(model(), replace(asked, max_model_len=most), L4), EngineCapacity
    )
    beyond = engine_capacity(model(), replace(asked, max_model_len=most + 1), L4)
    assert isinstance(beyond, Refusal)


def test_the_textbook_model_costs_131072_bytes_per_token() -> None:
    assert bytes_per_token(TEXTBOOK, CacheFormat(1, kv("bfloat16"))) == 131_072


def test_8192_tokens_of_the_textbook_model_take_one_gibibyte() -> None:
    found = capacity(memory=GIB, max_model_len=4096)
    assert (found.kv_blocks.expected, found.bytes_per_block) == (512, 2_097_152)
    assert found.kv_cache_size_tokens.expected == 8192


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("fp8", 65_536),
        ("fp8_e5m2", 65_536),
        ("float32", 262_144),
        ("nvfp4", 36_864),
        ("int8_per_token_head", 32 * 8 * 2 * (128 + 4)),
        ("fp8_per_token_head", 32 * 8 * 2 * (128 + 4)),
    ],
)
def test_each_cache_dtype_has_its_cost(dtype: str, expected: int) -> None:
    assert bytes_per_token(TEXTBOOK, CacheFormat(1, kv(dtype))) == expected


def test_the_latent_is_whole_on_every_rank() -> None:
    latent = (LayerGroup(LayerKind.MLA, 61, 1, 576, 0),)
    costs = {bytes_per_token(latent, CacheFormat(tp, kv("bfloat16"))) for tp in (1, 2, 8)}
    assert costs == {61 * 1152}


def test_a_head_is_repeated_where_there_are_more_ranks_than_heads() -> None:
    assert bytes_per_token(TEXTBOOK, CacheFormat(8, kv("bfloat16"))) == 16_384
    assert bytes_per_token(TEXTBOOK, CacheFormat(16, kv("bfloat16"))) == 16_384


def test_kimi_k2_thinking_has_the_tokens_of_its_log() -> None:
    # 8 x H200, tensor parallel 8, 46.80 GiB per device: 715,072 tokens (vllm-project/recipes).
    latent = (LayerGroup(LayerKind.MLA, 61, 1, 576, 0),)
    tokens = 46.80 * GIB / bytes_per_token(latent, CacheFormat(8, kv("bfloat16")))
    assert tokens == pytest.approx(715_072, rel=0.001)


def test_an_observed_boot_lies_in_the_band() -> None:
    # Qwen2.5-7B on an RTX 3090, vLLM main of April 2026, 0.9, 4096 tokens: 5.82 GiB for KV.
    card = Device("NVIDIA-GeForce-RTX-3090", round(23.58 * GIB), compute_capability="8.6")
    found = capacity(
        model("Qwen/Qwen2.5-7B-Instruct"), card,
        version="0.20.2", memory_utilization_milli=900, max_model_len=4096,
    )  # fmt: skip
    assert found.weight_bytes_per_device / GIB == pytest.approx(14.25, rel=0.005)
    band = found.kv_memory_bytes
    assert band.low / GIB <= 5.82 <= band.high / GIB
    assert band.expected / GIB == pytest.approx(5.82, rel=0.05)


def test_the_budget_is_the_sum_of_its_steps() -> None:
    found = capacity()
    value = {step.name: step.value for step in found.trace}
    assert value["requestedBytes"] == -(-H100.memory_bytes * 920 // 1000)
    assert (
        value["requestedBytes"] - value["weightBytesPerDevice"] - value["overheadBytes"]
        == value["kvMemoryBytes"]
        == found.kv_memory_bytes.expected
    )
    weights = find(found.trace, "weightBytesPerDevice")
    assert weights is not None
    assert sum(size for _, size in weights.inputs) == weights.value


def test_one_block_is_never_usable() -> None:
    found = capacity(memory=GIB, max_model_len=4096)
    assert found.usable_blocks.expected == found.kv_blocks.expected - 1
    assert sequences_at(found, 4096).expected == 1
    assert sequences_at(found, 1).expected == 511


def test_given_bytes_are_exact_and_the_argument_wins() -> None:
    by_flag = capacity(kv_cache_memory_bytes=2 * GIB, max_model_len=4096)
    assert by_flag.kv_memory_bytes.is_point
    assert by_flag.kv_blocks.expected == 1024
    reported = capacity(memory=GIB, kv_cache_memory_bytes=2 * GIB, max_model_len=4096)
    assert reported.kv_blocks.expected == 512


def test_an_override_of_the_blocks_is_taken() -> None:
    found = capacity(num_gpu_blocks_override=300, max_model_len=1024)
    assert found.kv_blocks.expected == 300
    assert found.kv_blocks.is_point


def test_blocks_that_the_device_cannot_hold_are_refused() -> None:
    # 100,000 blocks of 2 MiB are 195 GiB; weights take 15 of the 79 GiB.
    found = refusal(num_gpu_blocks_override=100_000, max_model_len=1024)
    assert (found.reason, found.field) == ("ModelDoesNotFit", "--num-gpu-blocks-override")
    most = int(found.message.rsplit("at most ", 1)[1].split()[0])
    assert refusal(num_gpu_blocks_override=most + 1, max_model_len=1024).reason == found.reason
    assert capacity(num_gpu_blocks_override=most, max_model_len=1024).kv_blocks.expected == most


def test_memory_that_is_given_is_taken_and_what_cannot_be_is_said() -> None:
    """The device may stand for its compute capability alone."""
    given = engine_capacity(model(), EngineConfig(max_model_len=8192), L4, 40 * GIB)
    assert isinstance(given, EngineCapacity)
    assert given.kv_blocks.expected == 40 * GIB // (2 << 20)
    assert any("54.99 GiB per device" in line for line in given.assumptions)
    fits = engine_capacity(model(), EngineConfig(max_model_len=8192), H100, 40 * GIB)
    assert isinstance(fits, EngineCapacity)
    assert not any("as given" in line for line in fits.assumptions)
    assert fits.kv_blocks.expected == 20_480


def test_blocks_beyond_the_engines_share_are_an_assumption() -> None:
    within = capacity(num_gpu_blocks_override=300, max_model_len=1024).assumptions
    beyond = capacity(
        num_gpu_blocks_override=20_000, memory_utilization_milli=500, max_model_len=1024
    ).assumptions
    assert not any("--num-gpu-blocks-override" in line for line in within)
    assert any("--num-gpu-blocks-override" in line for line in beyond)


def test_the_length_defaults_to_the_models_own() -> None:
    assert capacity().max_model_len == 131_072


def test_an_automatic_length_is_what_fits_for_certain() -> None:
    found = capacity(device=L4, max_model_len=-1)
    assert found.max_model_len == found.usable_blocks.low * 16 < 131_072
    assert any("automatic" in line for line in found.assumptions)


@pytest.mark.parametrize(
    ("more", "reason", "field"),
    [
        ({"tensor_parallel": 0}, "InvalidParallelism", "--tensor-parallel-size"),
        ({"tensor_parallel": 3}, "InvalidParallelism", "--tensor-parallel-size"),
        ({"pipeline_parallel": 33}, "InvalidParallelism", "--pipeline-parallel-size"),
        ({"data_parallel": -1}, "InvalidParallelism", "--data-parallel-size"),
        ({"max_model_len": 131_073}, "MaxModelLenTooLong", "--max-model-len"),
        ({"max_model_len": 0}, "InvalidMaxModelLen", "--max-model-len"),
        ({"max_num_seqs": 0}, "InvalidBatch", "--max-num-seqs"),
        (
            {"max_num_seqs": 64, "max_num_batched_tokens": 32},
            "InvalidBatch",
            "--max-num-batched-tokens",
        ),
        (
            {"memory_utilization_milli": 1001},
            "InvalidMemoryUtilization",
            "--gpu-memory-utilization",
        ),
        ({"memory_utilization_milli": 0}, "InvalidMemoryUtilization", "--gpu-memory-utilization"),
        ({"memory_utilization_milli": 100}, "ModelDoesNotFit", "--tensor-parallel-size"),
        ({"kv_cache_memory_bytes": 70 * GIB}, "ModelDoesNotFit", "--kv-cache-memory-bytes"),
        ({"kv_cache_memory_bytes": 0}, "InvalidKvCacheMemory", "--kv-cache-memory-bytes"),
        ({"kv_cache_memory_bytes": GIB}, "SequenceDoesNotFit", "--max-model-len"),
        ({"num_gpu_blocks_override": 0}, "InvalidBlocks", "--num-gpu-blocks-override"),
        ({"kv_cache_dtype": "int3"}, "UnsupportedKvCacheDtype", "--kv-cache-dtype"),
        ({"kv_cache_dtype": "fp8_ds_mla"}, "UnsupportedKvCacheDtype", "--kv-cache-dtype"),
        ({"block_size": 24}, "InvalidBlockSize", "--block-size"),
        ({"dtype": "int8"}, "InvalidDtype", "--dtype"),
        ({"quantization": "awq"}, "UnsupportedQuantization", "--quantization"),
        ({"version": "0.7.3"}, "UnsupportedEngineVersion", "engine.version"),
    ],
)
def test_what_the_engine_would_not_start_with_is_refused_by_its_flag(
    more: dict[str, Any], reason: str, field: str
) -> None:
    found = refusal(**more)
    assert (found.reason, found.field) == (reason, field)
    assert field in found.message


def test_a_sequence_that_does_not_fit_names_the_length_that_does() -> None:
    found = refusal(kv_cache_memory_bytes=GIB)
    assert "Lower --max-model-len to 8176" in found.message
    assert capacity(kv_cache_memory_bytes=GIB, max_model_len=8176).max_model_len == 8176


def test_mla_has_no_kernel_for_scales_per_head() -> None:
    found = refusal(
        model("deepseek-ai/DeepSeek-V3"), tensor_parallel=8, kv_cache_dtype="int8_per_token_head"
    )
    assert found.field == "--kv-cache-dtype"


def test_kv_heads_must_share_ranks_evenly() -> None:
    shape = replace(model(), attention_heads=36)
    assert refusal(shape, tensor_parallel=12).field == "--tensor-parallel-size"


def test_stages_share_the_layers_as_the_engine_does() -> None:
    sizes = [stage.layers for stage in stages(61, 4)]
    assert sizes == [15, 15, 16, 15]
    assert [stage.layers for stage in stages(62, 4)] == [15, 16, 16, 15]
    assert [stage.layers for stage in stages(32, 1)] == [32]


def test_the_fullest_stage_decides() -> None:
    whole = capacity(model("meta-llama/Llama-3.1-70B"), tensor_parallel=4)
    split = capacity(model("meta-llama/Llama-3.1-70B"), tensor_parallel=4, pipeline_parallel=2)
    assert split.devices == 8
    assert split.bytes_per_block * 2 == whole.bytes_per_block
    assert split.weight_bytes_per_device > whole.weight_bytes_per_device // 2
    assert split.kv_blocks.expected > 2 * whole.kv_blocks.expected


def weight_bytes(shape: ModelShape, stage: Stage) -> int:
    return sum(weight_parts(shape.weight_groups, shape.layers, stage, 1, 1).values())


def test_the_stages_weights_are_the_models_weights() -> None:
    for name in ("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-30B-A3B"):
        shape = model(name)
        kept = [g for g in shape.weight_groups if g.stage != "each"]
        shape = replace(shape, weight_groups=tuple(kept))
        (alone,) = stages(shape.layers, 1)
        together = sum(weight_bytes(shape, stage) for stage in stages(shape.layers, 4))
        assert together == pytest.approx(weight_bytes(shape, alone), rel=1e-9)


def test_a_tied_embedding_lies_on_both_ends() -> None:
    shape = model("meta-llama/Llama-3.2-1B")
    first, middle, last = (weight_bytes(shape, stage) for stage in stages(15, 3))
    assert first > middle
    assert last > middle


def test_experts_are_split_over_data_parallelism_and_dense_models_are_not() -> None:
    dense = [capacity(data_parallel=n).weight_bytes_per_device for n in (1, 2)]
    assert dense[0] == dense[1]
    mixture = [
        capacity(model("Qwen/Qwen3-30B-A3B"), data_parallel=n).weight_bytes_per_device
        for n in (1, 2)
    ]
    assert mixture[1] < 0.6 * mixture[0]


def test_quantising_while_loading_halves_the_linear_layers() -> None:
    plain = capacity().weight_bytes_per_device
    small = capacity(quantization="fp8").weight_bytes_per_device
    embedding_and_head = 2 * 128256 * 4096 * 2
    assert small - embedding_and_head == pytest.approx((plain - embedding_and_head) / 2, rel=0.01)


def test_fp32_doubles_weights_and_cache() -> None:
    plain, wide = capacity(max_model_len=4096), capacity(dtype="float32", max_model_len=4096)
    assert wide.bytes_per_block == 2 * plain.bytes_per_block
    assert wide.weight_bytes_per_device == pytest.approx(
        2 * plain.weight_bytes_per_device, rel=1e-6
    )


def test_a_checkpoints_fp8_cache_is_taken_under_auto() -> None:
    shape = replace(model(), kv_cache_dtype="fp8")
    assert capacity(shape).bytes_per_block == 1_048_576
    assert capacity(shape, kv_cache_dtype="bfloat16").bytes_per_block == 2_097_152


def test_the_defaults_follow_the_device() -> None:
    big, small = capacity(), capacity(device=L4, max_model_len=4096)
    assert (big.max_num_batched_tokens, big.max_num_seqs) == (8192, 1024)
    assert (small.max_num_batched_tokens, small.max_num_seqs) == (2048, 256)


def test_a_version_that_is_not_known_is_an_assumption() -> None:
    assert any("version" in line for line in capacity(version=None).assumptions)


def test_a_shape_by_hand_needs_no_architecture() -> None:
    shape = ModelShape(
        "by hand", "", 4096, 128256, 0, TEXTBOOK, (WeightGroup("all", 8_030_000_000, 16_000),),
        max_position_embeddings=8192,
    )  # fmt: skip
    found = capacity(shape)
    assert found.weight_bytes_per_device == 16_060_000_000
    assert any("feed-forward width" in line for line in found.assumptions)


def test_without_any_length_the_flag_is_asked_for() -> None:
    shape = replace(model(), max_position_embeddings=None)
    assert refusal(shape).reason == "MaxModelLenUnknown"
    assert capacity(shape, max_model_len=4096).max_model_len == 4096


def test_the_same_question_is_answered_once() -> None:
    assert capacity() is capacity()


def blocks(found: EngineCapacity | Refusal) -> int:
    return found.kv_blocks.expected if isinstance(found, EngineCapacity) else 0


@given(
    gib=st.integers(20, 190),
    more=st.integers(0, 50),
    tp=st.sampled_from([1, 2, 4, 8]),
    seqs=st.sampled_from([16, 256, 1024]),
)
def test_more_memory_never_means_fewer_blocks(gib: int, more: int, tp: int, seqs: int) -> None:
    engine = EngineConfig(
        version="0.27.0", tensor_parallel=tp, max_model_len=1024, max_num_seqs=seqs,
        max_num_batched_tokens=2048,
    )  # fmt: skip
    small = engine_capacity(model(), engine, replace(H100, memory_bytes=gib * GIB))
    large = engine_capacity(model(), engine, replace(H100, memory_bytes=(gib + more) * GIB))
    assert blocks(small) <= blocks(large)


@given(
    memory=st.integers(1, 60).map(lambda gib: gib * GIB),
    dtype=st.sampled_from(["auto", "fp8", "nvfp4"]),
)
def test_more_ranks_never_mean_fewer_blocks(memory: int, dtype: str) -> None:
    counts = [
        blocks(
            engine_capacity(
                model(),
                EngineConfig(
                    version="0.32", tensor_parallel=tp, max_model_len=128, kv_cache_dtype=dtype
                ),
                H100,
                memory,
            )
        )
        for tp in (1, 2, 4, 8)
    ]
    assert counts == sorted(counts)
    assert counts[0] > 0


@given(first=st.integers(1, 131_072), second=st.integers(1, 131_072))
def test_longer_sequences_are_never_more(first: int, second: int) -> None:
    found = capacity()
    short, long = sorted((first, second))
    a, b = sequences_at(found, short), sequences_at(found, long)
    assert a.expected >= b.expected
    assert a.low <= a.expected <= a.high


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
    gib=st.integers(10, 300),
    milli=st.integers(1, 1000),
    version=st.sampled_from([None, "0.9.0", "0.19.1", "0.20.2", "0.33"]),
    eager=st.booleans(),
    length=st.one_of(st.none(), st.integers(-1, 200_000)),
    name=st.sampled_from(["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
)
def test_every_answer_holds_together(
    tp: int, pp: int, gib: int, milli: int, version: str | None, *, eager: bool,
    length: int | None, name: str,
) -> None:  # fmt: skip
    engine = EngineConfig(
        version=version, tensor_parallel=tp, pipeline_parallel=pp, memory_utilization_milli=milli,
        enforce_eager=eager, max_model_len=length,
    )  # fmt: skip
    found = engine_capacity(model(name), engine, replace(H100, memory_bytes=gib * GIB))
    assume(isinstance(found, EngineCapacity))
    assert isinstance(found, EngineCapacity)
    band = found.kv_memory_bytes
    assert 0 <= band.low <= band.expected <= band.high
    assert found.kv_blocks.low <= found.kv_blocks.expected <= found.kv_blocks.high
    assert found.bytes_per_block * found.kv_blocks.expected <= max(band.expected, 0)
    assert found.usable_blocks.high >= found.blocks_for(found.max_model_len)
    assert found.kv_cache_size_tokens.low <= found.kv_cache_size_tokens.high
    assert found.max_num_seqs <= found.max_num_batched_tokens
