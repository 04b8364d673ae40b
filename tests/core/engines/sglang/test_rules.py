"""SGLang's rules by version: the default fraction, its tiers, window pools and state slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.sglang.fraction import (
    Launch,
    chunk_default,
    decode_batch_default,
    default_fraction,
    prefill_graph_count,
)
from kvscale.core.engines.sglang.rules import NEWEST, sglang_rules
from kvscale.core.refusal import Refusal

H100, H200, B200, L4, A100_40, H20 = 81_559, 143_771, 183_359, 23_034, 40_960, 97_871


def launch(mib, ranks=1, **more):
    fields = {
        "attention_ranks": 1, "chunk": 8192, "decode_batch": 256, "prefill_graphs": 0,
        "latent": False, "speculative": "", "deepep": False,
    }  # fmt: skip
    return Launch(device_mib=mib, ranks=ranks, **{**fields, **more})


def fraction(version, *args, **more):
    return default_fraction(sglang_rules(version), launch(*args, **more)).milli


@pytest.mark.parametrize(
    ("version", "ranks", "expected"),
    [
        ("0.4.0", 1, 880),
        ("0.4.3", 2, 870),
        ("0.4.5", 4, 850),
        ("0.4.6", 8, 810),
        ("0.4.2", 16, 790),
    ],
)
def test_the_first_rule_goes_by_ranks_alone(version, ranks, expected):
    assert fraction(version, H100, ranks) == expected


def test_large_devices_had_a_reserve_of_their_own_in_between():
    assert fraction("0.4.5", H200, 8) == 810
    assert fraction("0.4.6", H200, 8) == int(1000 * (1 - 13 * 1024 / H200))
    # min(0.88 + 48 GiB x 0.12 / device, 18 GiB kept)
    assert fraction("0.4.7", H200, 8) == int(1000 * (1 - 18 * 1024 / H200))
    assert fraction("0.4.7", B200, 1) == 790


@pytest.mark.parametrize(
    ("mib", "ranks", "more", "expected"),
    [
        (L4, 1, {}, 871),  # 2.9 GiB
        (H100, 1, {}, 874),  # 10 GiB
        (H100, 8, {}, 831),  # 13.5 GiB
        (H20, 8, {}, 833),  # 16 GiB
        (B200, 1, {}, 821),  # 32 GiB
        (H100, 1, {"speculative": "EAGLE"}, 849),
        (H100, 8, {"attention_ranks": 8}, 780),
    ],
)
def test_the_second_rule_keeps_gibibytes_by_tier(mib, ranks, more, expected):
    assert fraction("0.4.9", mib, ranks, **more) == expected


def test_the_third_rule_is_the_one_that_real_logs_show():
    # Qwen3-8B on a B200, April 2026: 136.36 GiB for KV of 177.57 free before the load.
    b200 = {"chunk": 16_384, "decode_batch": 512, "prefill_graphs": prefill_graph_count(16_384)}
    assert fraction("0.5.11", B200, **b200) == 854
    # Qwen3-30B-A3B-FP8 on an H100, August 2026: 58 prefill graphs, 35.98 of 78.48 GiB.
    assert prefill_graph_count(8192) == 58
    assert fraction("0.5.19", H100, prefill_graphs=58) == 830
    # Without prefill graphs the floor of 10 GiB does not bind either.
    assert fraction("0.5.9", H100) == 835


def test_graphs_and_ranks_and_floor():
    assert fraction("0.5.9", H100, chunk=2048, decode_batch=8) == 874  # the floor, 10240
    dp = {"attention_ranks": 8, "decode_batch": 512, "latent": True}
    reserved = 512 + 12_288 + 1024 + 2 * 512 + 4.5 * 512 * 8
    assert fraction("0.5.9", H200, 8, **dp) == round(1000 * (1 - reserved / H200))
    with_graphs = reserved + 1536
    assert fraction("0.5.12", H200, 8, **dp, prefill_graphs=58) == round(
        1000 * (1 - with_graphs / H200)
    )


def test_speculation_is_reserved_for_until_its_weights_are_counted():
    shares = {
        version: fraction(version, H100, speculative="EAGLE")
        for version in ("0.5.9", "0.5.12", "0.5.14")
    }
    assert shares["0.5.14"] == fraction("0.5.14", H100)
    assert shares["0.5.12"] < shares["0.5.9"] < shares["0.5.14"]


def test_a_vision_tower_costs_a_part_of_the_fraction():
    plain = fraction("0.5.9", H100)
    assert fraction("0.5.9", H100, vision=(24, 1024)) == int(0.95 * plain)
    assert fraction("0.4.9", H100, vision=(24, 1024)) == int(0.9 * fraction("0.4.9", H100))
    assert fraction("0.5.9", H100, vision=(45, 3200)) == int(0.95 * 0.8 * plain)


@pytest.mark.parametrize(
    ("version", "mib", "tensor", "chunk", "batch"),
    [
        ("0.4.3", L4, 1, 2048, 8), ("0.4.3", L4, 4, 2048, 80), ("0.4.3", H100, 1, 8192, 160),
        ("0.5.3", L4, 1, 2048, 16), ("0.5.9", L4, 1, 2048, 24), ("0.5.20", L4, 1, 4096, 48),
        ("0.5.20", L4, 4, 4096, 160), ("0.5.20", 15_360, 1, 2048, 8),
        ("0.5.9", A100_40, 1, 4096, 32), ("0.5.9", H100, 1, 8192, 256),
        ("0.5.9", H200, 8, 8192, 512), ("0.5.9", B200, 1, 16_384, 512),
    ],
)  # fmt: skip
def test_defaults_by_tier(version, mib, tensor, chunk, batch):
    rules = sglang_rules(version)
    assert chunk_default(rules, mib) == chunk
    assert decode_batch_default(rules, mib, tensor) == batch


def test_versions_that_are_not_known_take_the_nearest_rules_and_say_so():
    assert sglang_rules("0.5.9").assumptions == ()
    for version in (None, "nightly", "0.6.0", "0.5.99"):
        rules = sglang_rules(version)
        assert rules.version == NEWEST
        assert not rules.known
        assert rules.assumptions
    unpatched = sglang_rules("0.5")
    assert unpatched.known
    assert "names no patch" in unpatched.assumptions[0]
    old = sglang_rules("0.3.6")
    assert isinstance(old, Refusal)
    assert old.field == "engine.version"
    assert "0.4" in old.message
    assert sglang_rules("0.5.6.post2").version == (0, 5, 6)
    assert sglang_rules("v0.5.9").version == (0, 5, 9)


def test_window_pools_by_version_and_architecture():
    def pool(version, architecture):
        return sglang_rules(version).window_pool(architecture)

    assert not pool("0.4.9", "MistralForCausalLM")
    assert pool("0.5.3", "CohereForCausalLM")
    assert not pool("0.5.3", "Gemma3ForCausalLM")
    assert not pool("0.5.23", "Gemma3ForCausalLM")
    assert not pool("0.5.6", "GptOssForCausalLM")
    assert pool("0.5.8", "GptOssForCausalLM")
    assert not pool("0.5.10", "Gemma4ForConditionalGeneration")
    assert pool("0.5.11", "Gemma4ForConditionalGeneration")


def test_state_slots_of_a_request():
    rules = sglang_rules("0.5.21")
    assert rules.slots_per_request("auto", radix=True, overlap=True) == 5
    assert rules.slots_per_request("extra_buffer", radix=True, overlap=False) == 4
    assert rules.slots_per_request("extra_buffer_lazy", radix=True, overlap=True) == 4
    assert rules.slots_per_request("no_buffer", radix=True, overlap=True) == 3
    assert rules.slots_per_request("auto", radix=False, overlap=True) == 1
    assert sglang_rules("0.5.12").slots_per_request("auto", radix=True, overlap=True) == 3


@given(
    st.integers(8_000, 300_000), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 65_536),
    st.sampled_from(["0.4.2", "0.4.6", "0.4.7", "0.4.9", "0.5.2", "0.5.3", "0.5.14", "0.5.23"]),
)  # fmt: skip
def test_the_fraction_is_always_a_share(mib, ranks, chunk, version):
    found = default_fraction(sglang_rules(version), launch(mib, ranks, chunk=chunk))
    assert 0 <= found.milli < 1000
    assert found.reserved_mib > 0


@given(st.integers(256, 32_768))
def test_a_longer_chunk_never_leaves_more(chunk):
    shares = [fraction("0.5.23", L4, chunk=size) for size in (chunk, 2 * chunk)]
    assert shares[1] <= shares[0]
