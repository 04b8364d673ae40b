"""What of a pool's state survives a restart, to and from the status.

Times are written in whole seconds, rounded up: an event then counts a moment longer against the
pace, never shorter.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, ValidationError

from kvscale.api.rules import ApiModel
from kvscale.api.status_types import ATOMIC, Int64, Time, Word, last
from kvscale.api.times import format_time, parse_time
from kvscale.core.decide.state import KEPT_SCALINGS, PoolState, ScalingEvent

M = TypeVar("M", bound=ApiModel)

_FOREIGN_KEPT: Final = 16


class ScalingRecordModel(ApiModel):
    """A change of replicas that kvscale made."""

    time: Time
    """When."""
    before: Int64
    """Replicas before."""
    after: Int64
    """Replicas after."""
    reason: Word | None = None
    """Why, in CamelCase."""


class MemoryModel(ApiModel):
    """What the operator must remember over its own restart. Not meant for people."""

    last_written_replicas: Int64 | None = None
    """Replica count that kvscale wrote or adopted last."""
    last_written_time: Time | None = None
    """When it was written. Absent: it was adopted."""
    had_data: bool | None = None
    """Whether demand was ever known."""
    foreign_times: Annotated[
        tuple[Time, ...],
        Field(max_length=_FOREIGN_KEPT, json_schema_extra=ATOMIC),
        last(_FOREIGN_KEPT),
    ] = ()
    """When somebody else changed a count that kvscale had written."""
    foreign_manager: Word | None = None
    """Field manager that did it last."""


def _write_time(at: float) -> str:
    return format_time(math.ceil(at))


def write_memory(state: PoolState) -> tuple[MemoryModel, tuple[ScalingRecordModel, ...]]:
    """`status.memory` and `status.scalings` of a state."""
    written = state.last_written_at
    memory = MemoryModel(
        last_written_replicas=state.last_written,
        last_written_time=None if written is None else _write_time(written),
        had_data=state.had_data,
        foreign_times=tuple(map(_write_time, state.foreign[-_FOREIGN_KEPT:])),
        foreign_manager=state.foreign_manager or None,
    )
    scalings = tuple(
        ScalingRecordModel(
            time=_write_time(event.at),
            before=event.before,
            after=event.after,
            reason=event.reason or None,
        )
        for event in state.scalings[-KEPT_SCALINGS:]
    )
    return memory, scalings


def read_memory(status: Mapping[str, Any], uid: str) -> PoolState:
    """The state to go on with after a restart.

    Args:
        status: `status` of the InferencePool as stored, raw. A part that cannot be read counts as
            never written: a damaged status must not keep the operator from starting.
        uid: of the InferencePool.
    """
    memory = _read(MemoryModel, status.get("memory")) or MemoryModel()
    stored = status.get("scalings")
    records = [
        record
        for item in (stored if isinstance(stored, list | tuple) else ())
        if (record := _read(ScalingRecordModel, item)) is not None
    ]
    return PoolState(
        uid=uid,
        had_data=bool(memory.had_data),
        last_written=memory.last_written_replicas,
        last_written_at=_read_time(memory.last_written_time),
        foreign=tuple(at for at in map(_read_time, memory.foreign_times) if at is not None),
        foreign_manager=memory.foreign_manager or "",
        scalings=tuple(
            ScalingEvent(at, record.before, record.after, record.reason or "")
            for record in records
            if (at := _read_time(record.time)) is not None
        ),
    )


def _read(model: type[M], value: Any) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _read_time(text: str | None) -> float | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError:
        return None
