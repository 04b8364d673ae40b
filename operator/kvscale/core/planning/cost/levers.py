"""What to change instead of scaling: settings that let the same devices hold or serve more.

Each candidate is an engine as it could be started. The capacity model judges it like any other:
what it refuses is no lever, and neither is what changes nothing. The effect is counted per device,
because a setting that takes twice the devices for twice the sequences gains nothing. Each number of
devices has the price of a machine that holds so many.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price, PriceOf
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.cost.candidates import DEVICE, Candidate, candidates
from kvscale.core.planning.cost.moves import ceiling_cost
from kvscale.core.refusal import Refusal
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile

MOST = 6
LEAST_GAIN = 1.02
"""A smaller gain is within what the estimate of memory does not know."""

MOST_LOSS = 0.995
"""More sequences at the same cost are worth naming: memory is what a pool scales by."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An engine's worth, per device so that engines of different size compare.

    Attributes:
        devices: of one engine.
        sequences_milli: resident sequences at the planning length that one device holds and runs,
            in thousandths (expected).
        tokens: KV cache size of one device (expected).
        micros_per_million: cost of a million output tokens at the ceiling (expected); None where
            price or speed is not known.
    """

    devices: int
    sequences_milli: int
    tokens: int
    micros_per_million: int | None


@dataclass(frozen=True, slots=True)
class Lever:
    """A change, with what it does.

    Attributes:
        change: what to set, in the engine's words ("--kv-cache-dtype fp8").
        caveat: what else it changes; "" if nothing.
        before, after: per device.
        name: a few words, for a table.
    """

    change: str
    caveat: str
    before: Standing
    after: Standing
    name: str = ""

    @property
    def gain(self) -> float:
        """How many times as good: by cost where it is known on both sides, else by sequences."""
        before, after = self.before.micros_per_million, self.after.micros_per_million
        return before / after if before and after else self.more

    @property
    def more(self) -> float:
        """How many times as many sequences a device holds."""
        return self.after.sequences_milli / max(1, self.before.sequences_milli)


@dataclass(frozen=True, slots=True)
class Levers:
    """What was looked at.

    Attributes:
        worth: changes that are worth making, the best first.
        dear: changes of the engine that hold more sequences per device and cost more per token,
            the most sequences first.
    """

    worth: tuple[Lever, ...] = ()
    dear: tuple[Lever, ...] = ()


def levers(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    *,
    requests: Profile | None = None,
    percentile: int = 95,
    price_of: PriceOf | None = None,
) -> tuple[Lever, ...]:
    """Changes that are worth making, the best first, at most `MOST`; see `all_levers`."""
    return all_levers(
        shape, engine, device, requests=requests, percentile=percentile, price_of=price_of
    ).worth


def all_levers(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    *,
    requests: Profile | None = None,
    percentile: int = 95,
    price_of: PriceOf | None = None,
) -> Levers:
    """What to change, and what not.

    Args:
        shape: the model.
        engine: as it is started.
        device: one of its devices.
        requests: lengths of the traffic; None: sequences of the maximum length.
        percentile: the planning percentile.
        price_of: prices; None: no costs.

    Returns:
        Nothing when the engine itself is refused.
    """
    capacity = engine_capacity(shape, engine, device, explained=False)
    if isinstance(capacity, Refusal):
        return Levers()
    tokens = capacity.max_model_len if requests is None else requests.total.tokens(percentile)
    own = Candidate("", "", "", engine, device)
    before = _standing(shape, own, tokens, requests, price_of)
    if before is None:
        return Levers()
    found: list[tuple[str, Lever]] = []
    dear: list[tuple[str, Lever]] = []
    longest = None if requests is None else whole(requests.total.quantile(0.999))
    paid = _price(own, price_of)
    for candidate in candidates(shape, engine, device, capacity, longest):
        price = _price(candidate, price_of)
        if price is None and candidate.group == DEVICE:
            continue  # nothing to compare, which saves looking at most of the table
        after = _standing(shape, candidate, tokens, requests, price_of)
        if after is None or not _comparable(candidate, before, after):
            continue
        caveat = _caveat(candidate, price, paid)
        lever = Lever(candidate.change, caveat, before, after, candidate.name)
        if _worth(lever):
            found.append((candidate.group, lever))
        elif candidate.group != DEVICE and lever.more >= LEAST_GAIN:
            dear.append((candidate.group, lever))
    best = sorted(_best_of_each(found), key=lambda one: (-one.gain, -one.more, one.change))
    groups = {group for group, _ in found}
    left = _best_of_each([(group, one) for group, one in dear if group not in groups])
    return Levers(
        tuple(best[:MOST]),
        tuple(sorted(left, key=lambda one: (-one.more, one.change))),
    )


def _caveat(candidate: Candidate, price: Price | None, paid: Price | None) -> str:
    """What else the change does; another price than now is part of it."""
    if price is None or (paid is not None and price.per_device_hour == paid.per_device_hour):
        return candidate.caveat
    return ", ".join(filter(None, (candidate.caveat, f"at {price.described}")))


def _worth(lever: Lever) -> bool:
    return lever.gain >= LEAST_GAIN or (lever.gain >= MOST_LOSS and lever.more >= LEAST_GAIN)


def _price(candidate: Candidate, price_of: PriceOf | None) -> Price | None:
    devices = candidate.engine.devices * candidate.engine.data_parallel
    return None if price_of is None else price_of(candidate.device, devices)


def _comparable(candidate: Candidate, before: Standing, after: Standing) -> bool:
    """Whether the gain says something: sequences on another device do not, without its price."""
    known = before.micros_per_million is not None and after.micros_per_million is not None
    return after.sequences_milli > 0 and (known or candidate.group != DEVICE)


def _best_of_each(found: list[tuple[str, Lever]]) -> Iterator[Lever]:
    """Of alternatives (other devices, degrees of parallelism) the best one."""
    best: dict[str, Lever] = {}
    for group, lever in found:
        if group not in best or lever.gain > best[group].gain:
            best[group] = lever
    yield from best.values()


def _standing(
    shape: ModelShape,
    candidate: Candidate,
    tokens: int,
    requests: Profile | None,
    price_of: PriceOf | None,
) -> Standing | None:
    """What the candidate is worth; None where it is refused."""
    engine, device = candidate.engine, candidate.device
    capacity = engine_capacity(shape, engine, device, explained=False)
    if isinstance(capacity, Refusal) or tokens > capacity.max_model_len:
        return None
    held = capacity.usable_blocks.expected // max(1, capacity.blocks_for(tokens))
    price = _price(candidate, price_of)
    return Standing(
        devices=engine.devices,
        sequences_milli=1000 * min(held, capacity.max_num_seqs) // engine.devices,
        tokens=capacity.kv_cache_size_tokens.expected // engine.devices,
        micros_per_million=ceiling_cost(shape, engine, device, price=price, requests=requests),
    )
