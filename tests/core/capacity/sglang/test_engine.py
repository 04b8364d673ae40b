"""An SGLang server's pools: hybrid windows, recurrent states, caps, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.sglang.states import StateDemand, state_pool
from kvscale.core.capacity.step_time import StepTime, step_time
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.sglang.rules import sglang_rules
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.refusal import Refusal
from kvscale.core.trace import find

GIB = 1 << 30
CONFIGS = Path(__file__).parents[3] / "data" / "hf_configs"
H100 = Device("NVIDIA-H100-80GB-HBM3", round(79.18 * GIB), 3_350 * 10**9, 989 * 10**12, "9.0")
H200 = Device("NVIDIA-H200", round(139.8 * GIB), 4_800 * 10**9, 989 * 10**12, "9.0")
B200 = Device("NVIDIA-B200", round(178.35 * GIB), 8_000 * 10**9, 2_250 * 10**12, "10.0")
GB10 = Device("GB10", round(121.6 * GIB), compute_capability="12.1")
LLAMA = preset("meta-llama/Llama-3.1-8B-Instruct")


def model(name):
    shape = read_shape(json.loads((CONFIGS / name / "config.json").read_text("utf-8")), name)
    assert isinstance(shape, ModelShape), shape
    return shape


def engine(version="0.5.21", options=None, **fields):
    return EngineConfig(
        kind=EngineKind.SGLANG, version=version, options=options or SGLangOptions(), **fields
    )


def capacity(shape=LLAMA, device=H100, memory=None, **fields):
    found = engine_capacity(shape, engine(**fields), device, memory)
    assert isinstance(found, EngineCapacity), found
    return found


def refusal(shape=LLAMA, device=H100, **fields):
    found = engine_capacity(shape, engine(**fields), device)
    assert isinstance(found, Refusal), found
    return found


def tokens(found):
    return found.kv_cache_size_tokens.expected


def test_no_activation_is_subtracted():
    """Trap 9: with a stated fraction neither chunk nor batch changes the pool."""
    stated = {"memory_utilization_milli": 850}
    plain = capacity(**stated)
    assert tokens(plain) == tokens(capacity(**stated, max_num_batched_tokens=32_768))
    assert tokens(plain) == tokens(capacity(**stated, options=SGLangOptions(graph_batch=8)))
    # Without one they do, by the default fraction.
    assert tokens(capacity()) > tokens(capacity(max_num_batched_tokens=32_768))


def test_the_fraction_is_of_memory_free_before_the_load():
    found = capacity(memory_utilization_milli=500)
    free = find(found.trace, "freeBeforeLoadBytes").value
    weights = found.weight_bytes_per_device
    assert free < H100.memory_bytes
    assert found.kv_memory_bytes.expected == pytest.approx(free * 0.5 - weights, abs=0.2 * GIB)


def test_mla_is_whole_on_every_rank_and_attention_dp_multiplies_the_pools():
    deepseek = model("deepseek-ai--DeepSeek-V3")
    wide = capacity(deepseek, H200, tensor_parallel=8, memory=30 * GIB)
    assert wide.bytes_per_block == 61 * 576 * 2 == 70_272
    apart = capacity(
        deepseek, H200, memory=30 * GIB, data_parallel=8, options=SGLangOptions(dp_attention=True)
    )
    assert apart.devices == 1
    assert tokens(apart) == tokens(wide)
    # Experts are shared out over the ranks, attention is not: it is held whole.
    assert apart.weight_bytes_per_device > wide.weight_bytes_per_device
    assert apart.weight_bytes_per_device < 2 * wide.weight_bytes_per_device
    alone = engine_capacity(deepseek, engine(data_parallel=8), H200)
    assert isinstance(alone, Refusal)
    assert alone.reason == "ModelDoesNotFit"


def test_a_start_that_only_luck_would_let_through_names_the_weights():
    """On the expected numbers nothing is left; the model has no recurrent states to blame."""
    refused = engine_capacity(
        preset("meta-llama/Llama-3.1-8B"), engine("0.5.23"), find_device("L4")
    )
    assert isinstance(refused, Refusal)
    assert refused.field == "--tp-size"
    assert "14.99 GiB per device" in refused.message


@pytest.mark.parametrize(
    ("version", "dtype", "each"),
    [
        ("0.5.23", "fp8_e4m3", 78 * 656 + 78 * 132),
        ("0.5.16", "fp8_e4m3", 78 * 576 + 78 * 132),
        ("0.5.23", "bfloat16", 78 * 1152 + 78 * 132),
    ],
)
def test_sparse_attention_adds_the_indexers_keys(version, dtype, each):
    found = capacity(
        model("zai-org--GLM-5-FP8"), H200, memory=10 * GIB, tensor_parallel=8, version=version,
        kv_cache_dtype=dtype,
    )  # fmt: skip
    assert found.block_tokens == 64
    assert found.bytes_per_block == 64 * each


def test_layers_that_share_an_index_hold_none_from_0_5_18():
    shape = model("zai-org--GLM-5.2-FP8")
    owners = next(g.layers for g in shape.layer_groups if g.kind is LayerKind.SPARSE_INDEXER)
    fields = {"memory": 10 * GIB, "tensor_parallel": 8, "kv_cache_dtype": "bfloat16"}
    new = capacity(shape, H200, **fields, version="0.5.18").bytes_per_block // 64
    old = capacity(shape, H200, **fields, version="0.5.17").bytes_per_block // 64
    latents = sum(g.layers for g in shape.layer_groups if g.kind is LayerKind.MLA)
    assert owners < latents
    assert old - new == (latents - owners) * 132


@pytest.mark.parametrize(("dtype", "bits"), [("fp4_e2m1", 4.5), ("mxfp8", 8.25), ("fp8_e5m2", 8)])
def test_formats_of_the_cache(dtype, bits):
    found = capacity(memory=GIB, kv_cache_dtype=dtype)
    assert found.bytes_per_block == 65_536 * bits / 8


def hybrid(window=1024, ratio=4, architecture="Gemma4ForConditionalGeneration"):
    return ModelShape(
        "hybrid", architecture, 4096, 128_000, 32,
        (
            LayerGroup(LayerKind.FULL_ATTENTION, 8, 8, 128, 128),
            LayerGroup(LayerKind.SLIDING_WINDOW, 8 * ratio, 8, 128, 128, window=window),
        ),
        (WeightGroup("all", 4 * 10**9, 16_000),),
        max_position_embeddings=131_072,
    )  # fmt: skip


def test_windows_have_a_pool_of_their_own():
    found = capacity(hybrid(), memory=10 * GIB)
    full, window = 8 * 4096, 32 * 4096
    assert tokens(found) == 10 * GIB * 10 // (10 * full + 8 * window)
    # A short sequence fills the window pool, a long one the full pool.
    assert found.blocks_for(512) == pytest.approx(512 * 10 / 8, abs=1)
    assert found.blocks_for(100_000) == 100_000
    assert found.blocks_for(1300) == found.blocks_for(1154) == pytest.approx(1154 * 10 / 8, abs=1)
    narrow = capacity(hybrid(), memory=10 * GIB, options=SGLangOptions(swa_ratio_ppm=100_000))
    assert tokens(narrow) > tokens(found)
    kept = capacity(hybrid(), memory=10 * GIB, options=SGLangOptions(hybrid_swa=False))
    assert tokens(kept) == 10 * GIB // (full + window)
    assert kept.blocks_for(512) == 512


def test_a_window_pool_is_sized_for_its_requests_without_a_radix_cache():
    fields = {"memory": 10 * GIB, "prefix_caching": False, "max_num_seqs": 8, "version": "0.5.23"}
    found = capacity(hybrid(), **fields)
    cap = 8 * (1024 + 128 + 1 + 1) + 2 * 8192 + 1
    assert tokens(found) == (10 * GIB - cap * 32 * 4096) // (8 * 4096)
    by_ratio = capacity(hybrid(), **{**fields, "version": "0.5.13"})
    assert tokens(by_ratio) < tokens(found)


@pytest.mark.parametrize(
    ("version", "architecture"),
    [("0.5.10", "Gemma4ForConditionalGeneration"), ("0.5.23", "Gemma3ForCausalLM")],
)
def test_models_without_a_window_pool_keep_every_token(version, architecture):
    found = capacity(hybrid(architecture=architecture), memory=10 * GIB, version=version)
    assert tokens(found) == 10 * GIB // (40 * 4096)


def test_states_take_their_share_as_a_log_shows():
    """Nemotron 3 Nano, SGLang 0.5.21, 4 ranks: 2,211 slots and 19,644,177 tokens of fp8.

    conv 0.44 GB, ssm 24.84 GB, K and V 14.05 GB each: 53.38 GiB for both.
    """
    shape = model("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4")
    device = Device("NVIDIA-H200", round(139.8 * GIB), compute_capability="9.0")
    found = capacity(
        shape, device, tensor_parallel=4, kv_cache_dtype="fp8_e4m3", memory_utilization_milli=440
    )
    slots = dict(find(found.trace, "statePoolBytes").inputs)
    assert slots["slotBytes"] == pytest.approx((0.44 + 24.84) * GIB / 2212, rel=0.005)
    assert found.bytes_per_block == 1536
    demand = StateDemand(slots["slotBytes"], 5, 32, radix=True)
    pool = state_pool(sglang_rules("0.5.21"), SGLangOptions(), demand, round(53.38 * GIB))
    assert pool.slots == pytest.approx(2211, rel=0.005)
    assert (53.38 * GIB - pool.bytes) / 1536 == pytest.approx(19_644_177, rel=0.005)


def test_states_bind_the_requests_and_not_the_tokens():
    """Trap 11: Qwen3.8-27B on a GB10, 360 slots: 50.77 GB of states, 72 requests, 6.98 GB of KV."""
    found = capacity(
        model("Qwen--Qwen3.5-27B"),
        H200, kv_cache_dtype="fp8_e4m3", memory_utilization_milli=850,
        max_num_seqs=72, options=SGLangOptions(max_mamba_cache_size=360, mamba_strategy="extra_buffer"),
    )  # fmt: skip
    pool = find(found.trace, "statePoolBytes")
    assert pool.value == pytest.approx((50.77 + 0.99) * GIB, rel=0.01)
    assert found.max_num_seqs == 360 // 5 == 72
    assert found.bytes_per_block == 32_768
    # A short request takes a fifth of the slots' 72nd part, however few its tokens.
    assert found.blocks_for(1) == -(-5 * tokens(found) // 360)


def test_states_stand_beside_kv_memory_that_is_given():
    shape = model("Qwen--Qwen3.5-27B")
    found = capacity(shape, H100, memory=10 * GIB)
    assert tokens(found) == 10 * GIB // 65_536
    slots = 9 * GIB // dict(find(found.trace, "statePoolBytes").inputs)["slotBytes"] - 1
    assert found.max_num_seqs == slots // 5


def test_speculation_costs_states_and_layers():
    """Trap 10: each running request keeps a state per draft token; a draft has layers of its own."""
    shape = model("Qwen--Qwen3.5-27B")
    plain = capacity(shape, H200, max_num_seqs=16)
    drafted = capacity(
        shape,
        H200,
        max_num_seqs=16,
        speculative_tokens=16,
        options=SGLangOptions(speculative="NGRAM"),
    )
    # States and their drafts share one part of the budget, so fewer requests run.
    assert drafted.max_num_seqs < plain.max_num_seqs == 16
    assert find(drafted.trace, "statePoolBytes").value == pytest.approx(
        find(plain.trace, "statePoolBytes").value, rel=0.05
    )
    eagle = SGLangOptions(speculative="EAGLE3")
    one = capacity(memory=10 * GIB, options=eagle, speculative_tokens=4)
    assert one.bytes_per_block == 131_072 * 33 // 32
    assert any("one layer" in text for text in one.assumptions)
    before = capacity(memory=10 * GIB, options=eagle, speculative_tokens=4, version="0.5.13")
    assert before.bytes_per_block == 131_072


def test_requests():
    assert capacity(version="0.5.9").max_num_seqs == 2048
    assert capacity(max_num_seqs=64).max_num_seqs == 64
    assert capacity(options=SGLangOptions(speculative="EAGLE")).max_num_seqs == 48
    capped = capacity(options=SGLangOptions(max_total_tokens=1000), version="0.5.23")
    assert (tokens(capped), capped.max_num_seqs, capped.max_model_len) == (1000, 500, 999)
    assert any("999 tokens" in text for text in capped.assumptions)


def test_pages():
    assert capacity().block_tokens == 1
    assert capacity(block_size=16).block_tokens == 16
    assert capacity(device=B200).block_tokens == 64
    assert capacity(device=B200, block_size=16).block_tokens == 16
    assert capacity(device=B200, version="0.5.3").block_tokens == 1
    mla = model("deepseek-ai--DeepSeek-V3")
    found = capacity(
        mla, H200, tensor_parallel=8, options=SGLangOptions(attention_backend="cutlass_mla")
    )
    assert found.block_tokens == 128
    assert tokens(found) % 128 == 0


def test_unified_memory_is_said():
    """Trap 14: the same settings gave 97,503, 53,149 and 20,961 tokens to three neighbours."""
    found = capacity(device=GB10)
    assert any("shares the host's memory" in text for text in found.assumptions)
    band = found.kv_memory_bytes
    assert band.high - band.low > 0.2 * GB10.memory_bytes


def test_an_unknown_version_has_a_wider_band_and_says_so():
    known, unknown = capacity(version="0.5.23"), capacity(version=None)
    assert unknown.kv_memory_bytes.low < known.kv_memory_bytes.low
    assert unknown.kv_memory_bytes.expected == known.kv_memory_bytes.expected
    assert "is not known" in unknown.assumptions[0]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"version": "0.3.6"}, "engine.version"),
        ({"kv_cache_dtype": "int2"}, "--kv-cache-dtype"),
        ({"memory_utilization_milli": 1000}, "--mem-fraction-static"),
        ({"max_model_len": 10**6}, "--context-length"),
        ({"block_size": 0}, "--page-size"),
        ({"tensor_parallel": 3}, "--tp-size"),
        ({"max_num_seqs": 0}, "--max-running-requests"),
        ({"decode_context_parallel": 2}, "--dcp-size"),
        ({"options": SGLangOptions(swa_ratio_ppm=2_000_000)}, "--swa-full-tokens-ratio"),
        ({"options": SGLangOptions(max_total_tokens=0)}, "--max-total-tokens"),
        ({"memory_utilization_milli": 100}, "--tp-size"),
    ],
)
def test_refusals_name_the_setting_in_sglangs_words(fields, field):
    refused = refusal(**fields)
    assert refused.field == field
    assert field in refused.message
    assert "--max-model-len" not in refused.message


def test_hybrid_pools_are_not_older_than_they_are():
    refused = refusal(model("Qwen--Qwen3.5-27B"), H200, version="0.5.2")
    assert (refused.reason, refused.field) == ("UnsupportedLayerKind", "engine.version")
    assert "0.5.4" in refused.message


def test_layers_that_keep_nothing_are_given_room_without_a_hybrid_pool():
    shape = model("nvidia--Llama-3_3-Nemotron-Super-49B-v1")
    assert sum(group.layers for group in shape.layer_groups) < shape.layers == 80
    assert capacity(shape, B200, memory=10 * GIB).bytes_per_block == 64 * 80 * 8 * 128 * 2 * 2


def test_prediction_layers_of_the_checkpoint_are_layers():
    deepseek = model("deepseek-ai--DeepSeek-V3")
    fields = {"memory": 10 * GIB, "tensor_parallel": 8, "speculative_tokens": 4}
    drafted = capacity(deepseek, H200, options=SGLangOptions(speculative="EAGLE"), **fields)
    plain = capacity(deepseek, H200, **fields)
    assert drafted.bytes_per_block == plain.bytes_per_block * 62 // 61
    assert drafted.weight_bytes_per_device > plain.weight_bytes_per_device


def test_layers_without_a_rule_are_refused_by_name():
    refused = refusal(model("deepseek-ai--DeepSeek-V4-Flash"), B200, tensor_parallel=8)
    assert refused.reason == "UnsupportedLayerKind"
    assert "MLA" in refused.message


def test_pipeline_stages_share_the_layers_and_the_smallest_decides():
    two = capacity(pipeline_parallel=2, memory=10 * GIB)
    assert two.bytes_per_block == 16 * 4096
    assert two.devices == 2


def test_the_speed_of_the_model_is_the_same_on_every_engine():
    sglang = step_time(LLAMA, engine(), H100)
    vllm = step_time(LLAMA, EngineConfig(), H100)
    assert isinstance(sglang, StepTime)
    assert sglang == vllm


@given(
    st.integers(300, 990), st.integers(0, 3), st.sampled_from(["0.4.2", "0.5.4", "0.5.12", "0.5.23"]),
    st.sampled_from(["auto", "fp8_e4m3"]),
)  # fmt: skip
def test_more_memory_never_holds_less(milli, ranks, version, dtype):
    for shape in (LLAMA, hybrid(), model("Qwen--Qwen3.5-27B")):
        fields = {
            "version": version,
            "kv_cache_dtype": dtype,
            "tensor_parallel": 1 << min(ranks, 2),
        }
        small = engine_capacity(shape, engine(memory_utilization_milli=milli, **fields), H100)
        large = engine_capacity(shape, engine(memory_utilization_milli=milli + 9, **fields), H100)
        if isinstance(small, EngineCapacity):
            assert isinstance(large, EngineCapacity)
            assert tokens(large) >= tokens(small)
            assert small.kv_blocks.low <= small.kv_blocks.expected <= small.kv_blocks.high


@given(st.integers(1, 131_072), st.integers(0, 5000), st.sampled_from([1, 16, 64]))
def test_a_longer_sequence_never_needs_less(length, more, page):
    for shape in (LLAMA, hybrid(), model("Qwen--Qwen3.5-27B")):
        found = capacity(shape, H200, block_size=page)
        assert 1 <= found.resident_blocks(length) <= found.blocks_for(length)
        assert found.blocks_for(length) <= found.blocks_for(length + more)
        assert found.blocks_for(length) * found.block_tokens >= length


@given(st.integers(1, 1 << 36), st.integers(0, 16), st.booleans(), st.integers(1, 4096))
def test_states_never_take_more_than_there_is(budget, drafts, radix, requests):
    for version in ("0.5.4", "0.5.9", "0.5.13", "0.5.23"):
        demand = StateDemand(1 << 20, 3, requests, radix=radix, drafts=drafts)
        pool = state_pool(sglang_rules(version), SGLangOptions(), demand, budget)
        assert pool.slots >= 0
        if radix and version != "0.5.9":
            assert pool.bytes <= budget + (1 << 20) * (1 + drafts)


def test_options_may_be_left_out():
    bare = replace(engine(), options=None)
    assert engine_capacity(LLAMA, bare, H100) == engine_capacity(LLAMA, engine(), H100)


@pytest.mark.parametrize(
    ("name", "device", "options"),
    [
        ("google/gemma-3-4b-it", "H200", SGLangOptions()),
        ("openai/gpt-oss-20b", "H100", SGLangOptions()),
        ("Qwen/Qwen3-8B", "H100", SGLangOptions(max_total_tokens=20_000)),
    ],
)
def test_the_trace_adds_up(name, device, options):
    """Whoever takes the printed inputs finds the printed values."""
    shape = preset(name)
    settings = replace(engine("0.5.23", options), max_model_len=8192)
    found = engine_capacity(shape, settings, find_device(device))
    assert isinstance(found, EngineCapacity), found
    steps = {step.name: step for step in found.trace}
    kv, fraction = steps["kvMemoryBytes"], steps["memFractionStatic"].value
    parts = dict(kv.inputs)
    left = parts["freeBeforeLoadBytes"] * fraction - sum(
        parts.get(part, 0)
        for part in ("weightBytesPerDevice", "besideWeightsBytes", "multimodalReserveBytes")
    )
    assert kv.value == pytest.approx(left, abs=1)
    shares = dict(steps["bytesPerToken"].inputs)
    each = shares["fullBytes"] + shares.get("windowBytes", 0) * shares.get("swaFullTokensRatio", 0)
    assert steps["bytesPerToken"].value == pytest.approx(each)
    blocks = dict(steps["kvBlocks"].inputs)
    most = blocks.get("maxTotalTokens", 1 << 60)
    assert steps["kvBlocks"].value == min(int(blocks["kvMemoryBytes"] / each), most)


def test_a_band_is_in_order_where_states_take_whole_slots() -> None:
    """A larger budget may hold one slot more, and leave less for KV."""
    found = engine_capacity(
        preset("Qwen/Qwen3.5-27B"),
        EngineConfig(
            kind=EngineKind.SGLANG, kv_cache_dtype="fp8_e4m3", memory_utilization_milli=853,
            max_num_seqs=100, speculative_tokens=3, block_size=16,
            options=SGLangOptions(mamba_ratio_milli=333),
        ),
        find_device("NVIDIA-A100-SXM4-80GB"),
    )  # fmt: skip
    assert isinstance(found, EngineCapacity)
    band = found.kv_memory_bytes
    assert band.low <= band.expected <= band.high
