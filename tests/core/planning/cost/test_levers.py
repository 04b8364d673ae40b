"""Levers: what helps is named, what the engine refuses or what changes nothing is not."""

from dataclasses import replace

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price
from kvscale.core.devices.price_table import list_price
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.planning.cost.candidates import candidates, has_fp8
from kvscale.core.planning.cost.levers import LEAST_GAIN, MOST, MOST_LOSS, Lever, all_levers, levers
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.profile import Profile, profile

ENGINE = EngineConfig(version="0.32", max_model_len=8192, max_num_seqs=64)


def shape_of(name: str) -> ModelShape:
    found = preset(name)
    assert isinstance(found, ModelShape)
    return found


def device_of(name: str) -> Device:
    found = find_device(name)
    assert isinstance(found, Device)
    return found


LLAMA = shape_of("meta-llama/Llama-3.1-8B-Instruct")
LATENT = ModelShape(
    name="latent",
    architecture="",
    hidden_size=2048,
    vocabulary_size=32_000,
    attention_heads=16,
    layer_groups=(LayerGroup(LayerKind.MLA, 27, 1, 576, 0),),
    weight_groups=(WeightGroup("all", 4_000_000_000, 16_000),),
    max_position_embeddings=32_768,
)


def requests(longest: int = 8192) -> Profile:
    found = profile(
        Traffic(
            prompt_tokens=LengthPercentiles(mean=300, p95=900),
            output_tokens=LengthPercentiles(mean=150, p95=400),
        ),
        longest,
    )
    assert isinstance(found, Profile)
    return found


def prices(device: Device, devices: int) -> Price | None:
    return list_price(device.product, devices)


def changes(found: tuple[Lever, ...]) -> list[str]:
    return [lever.change for lever in found]


def named(found: tuple[Lever, ...], words: str) -> Lever | None:
    return next((lever for lever in found if words in lever.change), None)


@pytest.mark.parametrize("with_traffic", [True, False])
@pytest.mark.parametrize("with_prices", [True, False])
@pytest.mark.parametrize("gpu", ["L4", "A100-SXM4-80GB", "H100", "MI300X"])
def test_levers_are_few_sorted_and_each_is_a_gain(
    gpu: str, with_prices: bool, with_traffic: bool
) -> None:
    found = levers(
        LLAMA,
        ENGINE,
        device_of(gpu),
        requests=requests() if with_traffic else None,
        price_of=prices if with_prices else None,
    )
    gains = [lever.gain for lever in found]
    assert len(found) <= MOST
    assert gains == sorted(gains, reverse=True)
    for lever in found:
        assert lever.gain >= LEAST_GAIN or (lever.gain >= MOST_LOSS and lever.more >= LEAST_GAIN)


def test_the_numbers_of_a_lever_are_those_of_the_engine_after_the_change() -> None:
    device = device_of("L4")
    lever = named(levers(LLAMA, ENGINE, device), "--kv-cache-dtype fp8")
    assert lever is not None
    changed = engine_capacity(LLAMA, replace(ENGINE, kv_cache_dtype="fp8"), device)
    assert isinstance(changed, EngineCapacity)
    held = changed.usable_blocks.expected // changed.blocks_for(8192)
    assert lever.after.sequences_milli == 1000 * held
    assert lever.after.tokens == changed.kv_cache_size_tokens.expected
    assert lever.after.sequences_milli > lever.before.sequences_milli
    assert lever.caveat


def test_what_is_set_already_is_no_lever() -> None:
    engine = replace(ENGINE, kv_cache_dtype="fp8", memory_utilization_milli=950)
    found = changes(levers(LLAMA, engine, device_of("L4")))
    assert not any("kv-cache-dtype" in one or "utilization" in one for one in found)


def test_fp8_needs_a_device_that_computes_in_it() -> None:
    assert [has_fp8(device_of(name)) for name in ("L4", "H100", "B200", "MI300X")] == [True] * 4
    assert not any(has_fp8(device_of(name)) for name in ("A100 80GB", "A10G", "T4", "V100 16GB"))
    assert not has_fp8(Device("unknown", 1 << 35))
    found = changes(levers(LLAMA, ENGINE, device_of("A100 80GB")))
    assert not any("fp8" in one for one in found)


def test_wider_parallelism_that_the_heads_refuse_is_not_proposed() -> None:
    odd = replace(LLAMA, attention_heads=25)
    assert not any("parallel" in one for one in changes(levers(odd, ENGINE, device_of("L4"))))


def test_a_latent_gains_nothing_by_tensor_parallelism_and_all_by_data_parallelism() -> None:
    device = device_of("H100")
    wide = EngineConfig(version="0.32", max_model_len=8192, tensor_parallel=4)
    lever = named(levers(LATENT, wide, device), "--data-parallel-size 4")
    assert lever is not None
    assert lever.after.sequences_milli > 3 * lever.before.sequences_milli
    narrow = EngineConfig(version="0.32", max_model_len=8192)
    found = changes(levers(LATENT, narrow, device))
    assert found
    assert not any("tensor-parallel" in one for one in found)


def test_tensor_parallelism_stays_within_a_node() -> None:
    device = device_of("H100")
    for ranks, proposed in ((1, ["2", "4", "8"]), (4, ["8"]), (8, [])):
        engine = replace(ENGINE, tensor_parallel=ranks)
        capacity = engine_capacity(LATENT, engine, device)
        assert isinstance(capacity, EngineCapacity)
        found = [one.change for one in candidates(LATENT, engine, device, capacity, None)]
        wider = [one.split()[1] for one in found if one.startswith("--tensor-parallel-size")]
        data = [str(1)] if ranks > 1 else []
        assert wider == proposed + data


def test_a_full_batch_is_a_lever_where_memory_is_left() -> None:
    few = replace(ENGINE, max_num_seqs=4)
    found = levers(LLAMA, few, device_of("H100"), requests=requests(), price_of=prices)
    lever = named(found, "--max-num-seqs 8")
    assert lever is not None
    assert lever.after.sequences_milli == 2 * lever.before.sequences_milli


def test_a_shorter_maximum_is_looked_at_only_when_requests_are_far_below_it() -> None:
    device = device_of("L4")
    capacity = engine_capacity(LLAMA, ENGINE, device)
    assert isinstance(capacity, EngineCapacity)

    def proposed(longest: int | None) -> list[str]:
        found = candidates(LLAMA, ENGINE, device, capacity, longest)
        return [one.change for one in found if one.group == "length"]

    assert proposed(3000) == ["--max-model-len 3072"]
    assert proposed(5000) == []
    assert proposed(None) == []
    # It changes nothing in a paged engine, so it is no lever.
    assert not named(levers(LLAMA, ENGINE, device, requests=requests()), "--max-model-len")


def test_another_device_needs_prices_on_both_sides() -> None:
    device = device_of("L4")
    assert not any(" for " in one for one in changes(levers(LLAMA, ENGINE, device)))
    found = levers(LLAMA, ENGINE, device, requests=requests(), price_of=prices)
    lever = named(found, " for 1 x NVIDIA-L4")
    assert lever is not None
    assert lever.before.micros_per_million is not None
    assert lever.after.micros_per_million is not None
    assert lever.after.micros_per_million < lever.before.micros_per_million
    assert sum(" for 1 x" in one for one in changes(found)) == 1


def test_the_words_are_those_of_the_engine() -> None:
    device = device_of("L4")
    capacity = engine_capacity(LLAMA, ENGINE, device)
    assert isinstance(capacity, EngineCapacity)
    for kind, word in (("SGLang", "--max-running-requests"), ("TensorRT-LLM", "--max_batch_size")):
        kinds = {str(one.value): one for one in type(ENGINE.kind)}
        if kind in kinds:
            engine = replace(ENGINE, kind=kinds[kind])
            found = [one.change for one in candidates(LLAMA, engine, device, capacity, 100)]
            assert any(word in one for one in found)
            assert not any("--max-num-seqs" in one for one in found)


def test_an_engine_that_does_not_start_has_no_levers() -> None:
    assert levers(shape_of("meta-llama/Llama-3.1-70B-Instruct"), ENGINE, device_of("L4")) == ()


@pytest.mark.parametrize("gpu", ["L4", "A10G", "L40S", "H100", "MI300X"])
def test_what_is_too_dear_holds_more_and_is_of_no_group_that_has_a_lever(gpu: str) -> None:
    found = all_levers(
        LLAMA, ENGINE, device_of(gpu), requests=requests(), percentile=95, price_of=prices
    )
    for lever in found.dear:
        assert lever.more >= LEAST_GAIN
        assert lever.gain < MOST_LOSS
    assert not set(changes(found.dear)) & set(changes(found.worth))
    assert not any(" for " in one for one in changes(found.dear))


def test_more_devices_are_priced_as_the_machine_that_holds_them() -> None:
    device, engine = device_of("L4"), replace(ENGINE, max_num_seqs=1024)
    # One L4 is rented for less than a quarter of the machine with four.
    found = all_levers(LLAMA, engine, device, requests=requests(), price_of=prices)
    looked_at = (*found.worth, *found.dear)
    wider = next(one for one in looked_at if one.change.startswith("--tensor-parallel-size"))
    assert "1.1504 USD" in wider.caveat
    one_price = prices(device, 1)
    even = levers(LLAMA, engine, device, requests=requests(), price_of=lambda *_: one_price)
    same = named(even, "--tensor-parallel-size")
    assert same is not None
    assert "USD" not in same.caveat
    assert same.after.micros_per_million is not None
    assert wider.after.micros_per_million is not None
    assert same.after.micros_per_million < wider.after.micros_per_million


def test_every_lever_has_a_short_name() -> None:
    for engine in (ENGINE, replace(ENGINE, tensor_parallel=4)):
        found = all_levers(LATENT, engine, device_of("H100"), requests=requests(), price_of=prices)
        names = [lever.name for lever in (*found.worth, *found.dear)]
        assert all(0 < len(name) <= 60 for name in names)
        assert len(set(names)) == len(names)
