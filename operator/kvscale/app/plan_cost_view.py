"""The parts of a plan's page about allocation policies, cost and levers."""

from collections.abc import Sequence

from kvscale.app.plan import Plan
from kvscale.app.tables import facts, number, short_name, size, table
from kvscale.core.devices.price import MICROS
from kvscale.core.planning.cost.levers import Lever, Levers, Standing
from kvscale.core.planning.cost.moves import Move
from kvscale.core.planning.policies import Policy
from kvscale.core.values import Band, Unknown

_POLICIES = {
    Policy.CONTIGUOUS: "contiguous, maximum length",
    Policy.FRAGMENTED: "contiguous, powers of two",
    Policy.PAGED: "paged (this engine)",
    Policy.SHARED_PREFIX: "paged, shared prefix",
}
_POINTS = {"ceiling": "at the ceiling", "planning": "at the planning percentile"}


def policy_lines(plan: Plan) -> list[str]:
    """The allocation policies side by side."""
    found, capacity = plan.policies, plan.capacity
    devices = capacity.devices
    title = f"What each allocation policy holds, sequences of {number(found.tokens)} tokens"
    if found.shared_tokens:
        title += f", {number(found.shared_tokens)} of them shared"
    rows = [
        (
            _POLICIES[one.policy],
            number(one.reserved_tokens),
            number(one.sequences.expected),
            number(round(one.sequences.expected / devices, 2)),
            size(one.wasted_bytes * devices),
            f"{one.used_share_milli / 10:.0f} %",
        )
        for one in found.allocations
    ]
    headers = ("policy", "reserved", "per engine", "per device", "wasted each", "memory used")
    return [title, *table(headers, rows)]


def cost_lines(plan: Plan) -> list[str]:
    """What output tokens cost, and what moves it; why not where it is not known."""
    cost = plan.cost
    crossover = _crossover(plan)
    if isinstance(cost, Unknown):
        return ["Cost", *facts([("not known", cost.message), ("decode", crossover)])]
    currency = cost.price.currency
    lines = [f"Cost, {currency} per million output tokens"]
    lines += table(
        ("", "batch", "low", "expected", "high"),
        [
            (
                _POINTS[point.name],
                number(round(point.batch_milli.expected / 1000, 1)),
                *_money_cells(point.micros_per_million),
            )
            for point in cost.points
        ],
    )
    lines += (
        table(
            ("rate", "replicas", f"{currency}/hour", "per million", "last replica's"),
            [
                (
                    one.name,
                    number(one.replicas),
                    money(one.micros_per_hour),
                    money(one.micros_per_million),
                    money(one.last_micros_per_million),
                )
                for one in cost.rates
            ],
        )
        if cost.rates
        else []
    )
    moves = "; ".join(_move(one) for one in cost.moves)
    return lines + facts(
        [
            ("next replica", f"{money(cost.replica_micros_per_hour)} {currency} per hour"),
            ("at the ceiling with", moves),
            ("decode", crossover),
            ("price", cost.price.described),
        ]
    )


def _move(move: Move) -> str:
    note = f" (at {move.note})" if move.note else ""
    return f"{move.change}: {money(move.micros_per_million)}{note}"


def _crossover(plan: Plan) -> str:
    if isinstance(plan.decode, Unknown):
        return ""
    context = f"at {number(round(plan.decode.resident_tokens))} tokens each"
    if plan.crossover is None:
        return f"bound by memory at every batch {context}: there is no crossover"
    return f"bound by memory below a batch of {number(plan.crossover)} {context}"


def lever_lines(found: Levers, title: str, currency: str) -> list[str]:
    """The levers under a title, and below it what costs more than it brings.

    Args:
        found: the levers.
        title: of the part.
        currency: of the costs; "" where none is known.
    """
    lines: list[str] = []
    if found.worth:
        lines += ["", title, *_lever_table(found.worth, currency)]
    if found.dear:
        lines += ["", "More sequences per device, at a higher cost per token"]
        lines += _lever_table(found.dear, currency)
    return lines


def _lever_table(levers: Sequence[Lever], currency: str) -> list[str]:
    """A row for each with a short name, and below what to set in full."""
    headers = ["change", "sequences/device", "tokens/device"]
    headers += [f"{currency}/million (ceiling)"] if currency else []
    rows = [_lever_row(lever, currency) for lever in levers]
    full = [
        (f"{_named(lever)}:", "; ".join(filter(None, (lever.change, lever.caveat))))
        for lever in levers
    ]
    return [*table(headers, rows), *facts(full)]


def _named(lever: Lever) -> str:
    return short_name(lever.name or lever.change)


def _lever_row(lever: Lever, currency: str) -> list[str]:
    before, after = lever.before, lever.after
    row = [
        _named(lever),
        f"{_sequences(before)} -> {_sequences(after)}",
        f"{number(before.tokens)} -> {number(after.tokens)}",
    ]
    if currency:
        row.append(f"{_cost(before)} -> {_cost(after)}")
    return row


def _sequences(standing: Standing) -> str:
    return number(round(standing.sequences_milli / 1000, 1))


def _cost(standing: Standing) -> str:
    return "?" if standing.micros_per_million is None else money(standing.micros_per_million)


def _money_cells(micros: Band) -> tuple[str, str, str]:
    return money(micros.low), money(micros.expected), money(micros.high)


def money(micros: int) -> str:
    """An amount with at least two decimals and at least two digits that say something."""
    amount = micros / MICROS
    decimals = 2
    while decimals < 6 and amount and abs(amount) * 10**decimals < 10:  # noqa: PLR2004 - two digits
        decimals += 1
    return f"{amount:,.{decimals}f}"
