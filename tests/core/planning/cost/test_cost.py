"""Cost of output tokens: the textbook's formula, prompts, bands, prices."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.step_time import StepTime, step_time
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import MICROS, Price, PriceOf
from kvscale.core.devices.price_table import PRICES, list_price
from kvscale.core.devices.table import CARDS, find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.cost.moves import cost_moves, halved_prompts
from kvscale.core.planning.cost.tokens import (
    ceiling_batch,
    cost_point,
    decoding,
    hourly,
    per_million,
    planning_batch,
    rate_cost,
    tokens_per_second,
)
from kvscale.core.refusal import Refusal
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.values import Band

ENGINE = EngineConfig(version="0.32", max_model_len=8192, max_num_seqs=64)
PRICE = Price(800_000, source="test")


def llama() -> tuple[ModelShape, Device, EngineCapacity, StepTime]:
    shape, device = preset("meta-llama/Llama-3.1-8B-Instruct"), find_device("L4")
    assert isinstance(shape, ModelShape)
    assert isinstance(device, Device)
    capacity, model = engine_capacity(shape, ENGINE, device), step_time(shape, ENGINE, device)
    assert isinstance(capacity, EngineCapacity)
    assert isinstance(model, StepTime)
    return shape, device, capacity, model


def requests(prompt: int = 900, output: int = 220) -> Profile:
    found = profile(
        Traffic(
            prompt_tokens=LengthPercentiles(mean=prompt),
            output_tokens=LengthPercentiles(mean=output),
        ),
        8192,
    )
    assert isinstance(found, Profile)
    return found


def test_without_prompts_it_is_the_textbook_s_formula() -> None:
    _, _, capacity, model = llama()
    decode = decoding(model, capacity, None)
    step = model.seconds(decode_sequences=4, resident_tokens=4 * 8192)
    assert tokens_per_second(decode, 4) == pytest.approx(4 / step)
    point = cost_point("ceiling", decode, Band(4000, 4000, 4000), hourly(PRICE, 1))
    assert point.micros_per_million.expected == pytest.approx(0.8 / 3600 * step / 4 * 1e12, abs=1)


def test_prompts_take_their_share_of_the_time() -> None:
    _, _, capacity, model = llama()
    alone = decoding(model, capacity, requests(prompt=1))
    beside = decoding(model, capacity, requests(prompt=3000))
    assert tokens_per_second(beside, 5) < tokens_per_second(alone, 5)


def test_the_band_of_a_cost_is_the_band_of_the_memory_turned_round() -> None:
    _, _, capacity, model = llama()
    decode = decoding(model, capacity, requests())
    batch = ceiling_batch(capacity, decode.resident_tokens)
    cost = cost_point("ceiling", decode, batch, hourly(PRICE, 1)).micros_per_million
    assert batch.low < batch.expected < batch.high
    assert cost.low < cost.expected < cost.high
    assert cost.high == per_million(800_000, tokens_per_second(decode, batch.low / 1000))


def test_the_plan_fills_less_than_the_ceiling_and_costs_more() -> None:
    _, _, capacity, model = llama()
    found = requests()
    decode = decoding(model, capacity, found)
    ceiling = ceiling_batch(capacity, decode.resident_tokens)
    planned = planning_batch(capacity, found.total.tokens(95), 85)
    assert planned.expected < ceiling.expected
    most = 1000 * capacity.max_num_seqs
    assert ceiling_batch(capacity, 1).high == most


@given(first=st.integers(1000, 64_000), more=st.integers(0, 20_000), devices=st.integers(1, 8))
def test_a_larger_batch_never_costs_more_a_token(first: int, more: int, devices: int) -> None:
    _, _, capacity, model = llama()
    decode = decoding(model, capacity, requests())
    small, large = (
        cost_point(
            "x", decode, Band.point(batch), hourly(PRICE, devices)
        ).micros_per_million.expected
        for batch in (first, first + more)
    )
    assert large <= small + 1


@given(
    rate=st.floats(0.1, 10_000),
    one=st.floats(0.1, 1000),
    price=st.integers(1000, 100 * MICROS),
)
def test_the_rate_s_cost_lies_between_a_full_replica_s_and_the_last_one_s(
    rate: float, one: float, price: int
) -> None:
    replicas = math.ceil(round(rate / one, 9))
    found = rate_cost(
        "mean",
        replicas=replicas,
        tokens_per_minute=rate,
        replica_tokens_per_minute=one,
        replica_micros_per_hour=price,
    )
    assert found.micros_per_hour == replicas * price
    full = per_million(price, one / 60)
    assert found.micros_per_million >= full * (1 - 1e-6) - 1
    assert found.last_micros_per_million >= found.micros_per_million * (1 - 1e-6) - 1


def test_what_moves_the_cost_moves_it_the_right_way() -> None:
    shape, device, capacity, model = llama()
    decode = decoding(model, capacity, requests())
    now = cost_point(
        "ceiling", decode, ceiling_batch(capacity, decode.resident_tokens), hourly(PRICE, 1)
    ).micros_per_million.expected
    moves = {
        move.change: move.micros_per_million
        for move in cost_moves(shape, ENGINE, device, price=PRICE, requests=requests())
    }
    assert moves["prompts half as long"] < now
    assert moves["KV cache in fp8"] < now
    assert moves["steps 10 % shorter"] == pytest.approx(0.9 * now, rel=0.02)
    assert "tensor parallelism doubled" in moves


def test_a_move_to_more_devices_has_their_price() -> None:
    shape, device, _, _ = llama()

    def doubled(price_of: PriceOf | None) -> list[tuple[int, str]]:
        moves = cost_moves(
            shape, ENGINE, device, price=PRICE, requests=requests(), price_of=price_of
        )
        return [(m.micros_per_million, m.note) for m in moves if m.change.startswith("tensor")]

    ((same, no_note),) = doubled(None)
    ((twice, note),) = doubled(lambda _, count: Price(800_000 * count))
    assert twice == pytest.approx(2 * same, rel=1e-6)
    assert (no_note, note) == ("", "1.60 USD per device and hour")
    assert doubled(lambda *_: None) == []


def test_a_change_that_the_engine_refuses_is_no_move() -> None:
    shape, _, _, _ = llama()
    no_fp8 = find_device("A100-SXM4-80GB")
    assert isinstance(no_fp8, Device)
    engine = EngineConfig(version="0.32", max_model_len=8192, tensor_parallel=32)
    changes = [
        m.change for m in cost_moves(shape, engine, no_fp8, price=PRICE, requests=requests())
    ]
    assert changes == ["prompts half as long", "steps 10 % shorter"]


def test_halved_prompts_keep_their_outputs() -> None:
    found = halved_prompts(requests(), 8192)
    assert found.prompt.mean() == pytest.approx(requests().prompt.mean() / 2, rel=0.01)
    assert found.output == requests().output
    assert found.total.tokens(95) < requests().total.tokens(95)


def test_list_prices_are_of_devices_of_the_table_and_dated() -> None:
    products = {card.product for card in CARDS}
    assert {row.product for row in PRICES} <= products
    for row in PRICES:
        price = list_price(row.product, row.devices)
        assert price is not None
        assert price.micros_per_device_hour > 0
        assert price.as_of
        assert "list price of" in price.source


def test_a_replica_s_devices_are_priced_in_a_machine_that_holds_them() -> None:
    one, two, nine = (list_price("NVIDIA-L4", devices) for devices in (1, 2, 9))
    assert one is not None
    assert "g6.xlarge" in one.source
    assert two is not None
    assert "g6.12xlarge" in two.source
    assert two.per_device_hour == pytest.approx(4.6016 / 4)
    assert nine is not None
    assert "g6.48xlarge" in nine.source


def test_a_device_without_a_list_price_has_none() -> None:
    assert list_price("NVIDIA-GeForce-RTX-4090", 1) is None


@pytest.mark.parametrize("product", ["NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"])
def test_a_refusal_is_no_price(product: str) -> None:
    assert not isinstance(list_price(product, 1), Refusal)


def test_a_price_is_written_with_its_source_and_as_many_digits_as_it_takes() -> None:
    texts = {800_000: "0.80", 804_800: "0.8048", 63_296_000: "63.296", 1: "0.000001"}
    for micros, text in texts.items():
        price = Price(micros, "EUR", "a list", "2026-07-20")
        assert price.described == f"{text} EUR per device and hour (a list, 2026-07-20)"
    assert Price(2_000_000, source="x").described == "2.00 USD per device and hour (x)"
