"""A round of the loop as a file: what was looked at, what was remembered, what was decided.

`decide` on the same file gives the same decision on any machine, which turns a report of a wrong
number into a test.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from kvscale import __version__
from kvscale.api.record import (
    dump_decisions,
    dump_snapshot,
    dump_state,
    load_decisions,
    load_snapshot,
    load_state,
)
from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import State
from kvscale.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Record:
    """One round.

    Attributes:
        before: the memory that the decision started from.
        decisions: as they were made; () when the file holds a bare snapshot.
        version: of kvscale that made it; "" when the file does not say.
    """

    snapshot: Snapshot
    before: State
    now: float
    decisions: tuple[Decision, ...] = ()
    version: str = __version__

    @property
    def other_version(self) -> str:
        """A clause that says so where another version made the record; "" otherwise."""
        return _of_another(self.version)


def _of_another(version: str) -> str:
    if version in {"", __version__}:
        return ""
    return f" (kvscale {version} made it, this is {__version__}: read it with the one that did)"


def name_of(record: Record) -> str:
    """A file name that sorts by time: "20261129T215347.123Z.json"."""
    moment = datetime.fromtimestamp(record.now, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z.json"


def encode(record: Record) -> bytes:
    """The record as one JSON object."""
    return orjson.dumps(
        {
            "kvscale": __version__,
            "now": record.now,
            "snapshot": orjson.Fragment(dump_snapshot(record.snapshot)),
            "state": orjson.Fragment(dump_state(record.before)),
            "decisions": orjson.Fragment(dump_decisions(record.decisions)),
        }
    )


def decode(data: bytes) -> Record:
    """The record of a file; a bare snapshot is taken with an empty memory, at its own time.

    Raises:
        ValueError: the data is neither; the message says where it is not.
    """
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if isinstance(raw, list):
        snapshot = load_snapshot(data)
        return Record(snapshot, State(), snapshot.at)
    if not isinstance(raw, dict):
        raise ValueError("not a JSON object: give a file that --record has written")  # noqa: TRY004 - a file's content, not a caller's type
    version = raw.get("kvscale", "")
    if not isinstance(version, str):
        version = ""
    try:
        return _decoded(raw, version)
    except ValueError as error:
        raise ValueError(f"{error}{_of_another(version)}") from None


def _decoded(raw: dict[str, Any], version: str) -> Record:
    if "snapshot" not in raw:
        raise ValueError("no snapshot: give a file that --record has written")
    snapshot = load_snapshot(orjson.dumps(raw["snapshot"]))
    now = raw.get("now", snapshot.at)
    if not isinstance(now, int | float):
        raise ValueError("now: not a number of epoch seconds")  # noqa: TRY004 - ditto
    state = load_state(orjson.dumps(raw["state"])) if "state" in raw else State()
    decisions = load_decisions(orjson.dumps(raw["decisions"])) if "decisions" in raw else ()
    return Record(snapshot, state, float(now), decisions, version)


def replay(record: Record) -> tuple[Decision, ...]:
    """Decide again on what was recorded."""
    return decide(record.snapshot, record.before, record.now)[0]
