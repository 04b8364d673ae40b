"""What moves the cost of output tokens: one change at a time, all else equal."""

from dataclasses import dataclass, replace

from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.roofline import SparseWeights, StepTime
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price, PriceOf
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.cost.candidates import has_fp8
from kvscale.core.planning.cost.tokens import (
    ceiling_batch,
    decoding,
    hourly,
    per_million,
    tokens_per_second,
)
from kvscale.core.refusal import Refusal
from kvscale.core.traffic.declared import Traffic
from kvscale.core.traffic.lengths import Lengths, total
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.traffic.residency import residents
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that moves the cost of output tokens, all else equal.

    Attributes:
        change: in words.
        micros_per_million: cost at the ceiling then.
        note: the price of a device, where the change has another; "" if not.
    """

    change: str
    micros_per_million: int
    note: str = ""


def cost_moves(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    *,
    price: Price,
    requests: Profile,
    price_of: PriceOf | None = None,
) -> tuple[Move, ...]:
    """How the cost at the ceiling moves with context, KV format, parallelism and step time.

    A change with which the engine would not start is left out, and so is one without a price.

    Args:
        shape: the model.
        engine: as it is started.
        device: one of its devices.
        price: of one device, as many as there are.
        requests: lengths of the traffic.
        price_of: price of one device of a replica that takes another number of them; None: the
            same.
    """
    capacity = engine_capacity(shape, engine, device, explained=False)
    if isinstance(capacity, Refusal):
        return ()
    shorter = halved_prompts(requests, capacity.max_model_len)
    changes = (
        ("prompts half as long", engine, shorter, 1.0),
        ("KV cache in fp8", replace(engine, kv_cache_dtype="fp8"), requests, 1.0),
        (
            "tensor parallelism doubled",
            replace(engine, tensor_parallel=2 * engine.tensor_parallel),
            requests,
            1.0,
        ),
        ("steps 10 % shorter", engine, requests, 0.9),
    )
    found = []
    for change, changed, lengths, share in changes:
        if changed.kv_cache_dtype != engine.kv_cache_dtype and not has_fp8(device):
            continue
        paid = price
        if changed.devices != engine.devices and price_of is not None:
            other = price_of(device, changed.devices * changed.data_parallel)
            if other is None:
                continue
            paid = other
        cost = ceiling_cost(shape, changed, device, price=paid, requests=lengths, step_share=share)
        if cost is not None:
            note = "" if paid.per_device_hour == price.per_device_hour else paid.short
            found.append(Move(change, cost, note))
    return tuple(found)


def ceiling_cost(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    *,
    price: Price | None,
    requests: Profile | None,
    step_share: float = 1.0,
) -> int | None:
    """Cost of a million output tokens at the ceiling, expected.

    Args:
        shape: the model.
        engine: as it is started.
        device: one of its devices.
        price: of one device.
        requests: lengths of the traffic; None: sequences of the maximum length.
        step_share: what every step takes of the time that the model says.

    Returns:
        Millionths of the currency; None where price, speed or capacity is not known.
    """
    capacity = engine_capacity(shape, engine, device, explained=False)
    model = step_time(shape, engine, device)
    if price is None or isinstance(model, Refusal) or isinstance(capacity, Refusal):
        return None
    decode = decoding(_scaled(model, step_share), capacity, requests)
    batch = ceiling_batch(capacity, decode.resident_tokens)
    speed = tokens_per_second(decode, max(1000, batch.expected) / 1000)
    return per_million(hourly(price, engine.devices), speed)


def halved_prompts(requests: Profile, limit: int) -> Profile:
    """The same requests with prompts half as long, at least one token.

    Args:
        requests: as they are.
        limit: longest sequence that the engine accepts.
    """
    if requests.measured is not None:
        half = tuple(max(1.0, tokens / 2) for tokens in requests.measured.prompts)
        found = profile(Traffic(requests=replace(requests.measured, prompts=half)), limit)
        return requests if isinstance(found, Unknown) else found
    prompt = Lengths(tuple(max(1.0, tokens / 2) for tokens in requests.prompt.values))
    return replace(
        requests,
        prompt=prompt,
        total=total(prompt, requests.output).capped(limit),
        residents=residents(prompt, requests.output, limit),
    )


def _scaled(model: StepTime, share: float) -> StepTime:
    return replace(
        model,
        fixed=model.fixed * share,
        dense=model.dense * share,
        sparse=tuple(SparseWeights(one.seconds * share, one.untouched) for one in model.sparse),
        kv_token=model.kv_token * share,
        compute_token=model.compute_token * share,
        compute_pair=model.compute_pair * share,
    )
