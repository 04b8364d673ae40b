"""Snapshots, states and decisions as JSON, exactly: what is loaded equals what was dumped.

`decide` on a loaded snapshot and state gives the answer it gave then. The form follows the core's
dataclasses and is as stable as they are: a record is read by the version that wrote it.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import PoolState, State
from kvscale.core.snapshot import Snapshot
from kvscale.core.spec import PoolKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _KeyedState:
    """JSON keys are strings, so a map by PoolKey is written as a list of pairs."""

    key: PoolKey
    state: PoolState


_CONFIG: Final = ConfigDict(ser_json_inf_nan="constants", defer_build=True)
"""Infinity and NaN are written by name, as Python's own json does, instead of null. The adapters
are built when first used: that takes half a second, and most commands never do."""

_SNAPSHOT: Final = TypeAdapter(tuple[Snapshot], config=_CONFIG)
_DECISIONS: Final = TypeAdapter(tuple[Decision, ...], config=_CONFIG)
_STATE: Final = TypeAdapter(tuple[tuple[_KeyedState, ...], float], config=_CONFIG)


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as JSON, in one line."""
    return _SNAPSHOT.dump_json((snapshot,))


def load_snapshot(data: bytes) -> Snapshot:
    """The snapshot that was dumped.

    Raises:
        ValueError: the data is no snapshot; the message says where.
    """
    return _load(_SNAPSHOT, data, "snapshot")[0]


def dump_decisions(decisions: tuple[Decision, ...]) -> bytes:
    """Decisions as JSON, in one line."""
    return _DECISIONS.dump_json(decisions)


def load_decisions(data: bytes) -> tuple[Decision, ...]:
    """The decisions that were dumped.

    Raises:
        ValueError: the data is no decisions; the message says where.
    """
    return _load(_DECISIONS, data, "decisions")


def dump_state(state: State) -> bytes:
    """The loop's memory as JSON, in one line."""
    pools = tuple(_KeyedState(key, pool) for key, pool in state.pools.items())
    return _STATE.dump_json((pools, state.arrivals_frozen_until))


def load_state(data: bytes) -> State:
    """The memory that was dumped.

    Raises:
        ValueError: the data is no state; the message says where.
    """
    pools, arrivals_frozen_until = _load(_STATE, data, "state")
    return State({item.key: item.state for item in pools}, arrivals_frozen_until)


def _load(adapter: TypeAdapter[T], data: bytes, what: str) -> T:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise ValueError(f"no {what}: {place}: {first['msg']}") from None
