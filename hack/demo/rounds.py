"""The operator's rounds, read from the record that it writes (`kvscale operator --record`)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvscale.app.record import Record, decode
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class Round:
    """What the operator saw and decided in one round, for the one pool of the demo.

    Attributes:
        at: seconds of the demo's clock since its zero.
        current: replicas that the Deployment had.
        write: the count that was written; None: nothing was.
        occupancy: used / usable KV blocks of the ready engines; None: not known, like the rest.
        preemptions: since the round before.
    """

    at: float
    id: str
    current: int
    ready: int
    wanted: int
    placeable: int | None
    desired: int
    write: int | None
    bound: str
    reason: str
    message: str
    occupancy: float | None
    running: int | None
    waiting: int | None
    preemptions: int


class Reader:
    """Reads each new file of a record once.

    Args:
        folder: of the record.
        zero: epoch second that is second 0.
    """

    def __init__(self, folder: Path, zero: float) -> None:
        self._folder = folder
        self._zero = zero
        self._last = ""

    def new(self) -> list[Round]:
        """The rounds since the last call, in order of time."""
        names = sorted(file.name for file in self._folder.glob("*Z.json"))
        found = []
        for name in names:
            if name > self._last:
                self._last = name
                found += read(decode((self._folder / name).read_bytes()), self._zero)
        return found


def read(record: Record, zero: float) -> list[Round]:
    """The round of a record; none where nothing could be decided yet."""
    rounds = []
    for decision in record.decisions:
        counts, demand = decision.counts, decision.demand
        if counts is None:
            continue
        known = None if isinstance(demand, Unknown) else demand
        rounds.append(
            Round(
                at=record.now - zero,
                id=decision.id,
                current=counts.current,
                ready=counts.ready,
                wanted=counts.wanted,
                placeable=counts.placeable,
                desired=counts.desired,
                write=decision.write,
                bound=decision.binding_bound,
                reason=decision.reason,
                message=decision.message,
                occupancy=known.occupancy_milli / 1000 if known else None,
                running=known.running if known else None,
                waiting=known.waiting if known else None,
                preemptions=known.preemptions if known else 0,
            )
        )
    return rounds


def write_decisions(rounds: Iterable[Round], path: Path) -> int:
    """One JSON line for each round whose decision differs from the one before; how many."""
    lines, last = [], ""
    for one in rounds:
        if one.id != last:
            last = one.id
            lines.append(
                json.dumps(
                    {
                        "time": round(one.at, 1),
                        "from": one.current,
                        "to": one.desired,
                        "reason": one.reason,
                        "bound": one.bound,
                        "message": one.message,
                    }
                )
            )
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return len(lines)
