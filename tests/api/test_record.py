"""Records: what is loaded equals what was dumped, types included."""

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvscale.api.record import (
    dump_decisions,
    dump_snapshot,
    dump_state,
    load_decisions,
    load_snapshot,
    load_state,
)
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import PoolState, State
from kvscale.core.engines.sample import EngineSample
from kvscale.core.snapshot import PodState, PoolSnapshot, Snapshot
from kvscale.core.spec import PoolKey
from kvscale.core.trace import Step
from kvscale.core.values import Known, Unknown

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**70), 2**70),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=4),
    bool: st.booleans(),
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that the core uses in its dataclasses."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in SCALARS:
        found = SCALARS[kind]
    elif origin in (Union, types.UnionType):
        found = st.one_of(*map(values, arguments))
    elif origin is tuple and arguments[-1] is Ellipsis:
        found = st.lists(values(arguments[0]), max_size=2).map(tuple)
    elif origin is tuple:
        found = st.tuples(*map(values, arguments))
    elif origin is Mapping:
        found = st.dictionaries(*map(values, arguments), max_size=2)
    elif origin is Known:
        found = st.builds(Known, values(arguments[0]), SCALARS[float], SCALARS[float])
    elif issubclass(kind, Enum):
        found = st.sampled_from(kind)
    else:
        assert is_dataclass(kind), kind
        hints = get_type_hints(kind)
        found = st.builds(kind, **{each.name: values(hints[each.name]) for each in fields(kind)})
    return found


def exactly(value: Any) -> str:
    """The value with the types of all its parts: 1 and 1.0 differ here."""
    return repr(value)


thorough = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@thorough
@given(values(Snapshot))
def test_a_snapshot_comes_back_exactly(snapshot: Snapshot) -> None:
    loaded = load_snapshot(dump_snapshot(snapshot))
    assert loaded == snapshot
    assert exactly(loaded) == exactly(snapshot)


@thorough
@given(values(State))
def test_a_state_comes_back_exactly(state: State) -> None:
    loaded = load_state(dump_state(state))
    assert loaded == state
    assert exactly(loaded) == exactly(state)


@thorough
@given(values(tuple[Decision, ...]))
def test_decisions_come_back_exactly(decisions: tuple[Decision, ...]) -> None:
    loaded = load_decisions(dump_decisions(decisions))
    assert loaded == decisions
    assert exactly(loaded) == exactly(decisions)


def test_a_state_keeps_pools_of_equal_names_in_different_namespaces_apart() -> None:
    state = State({PoolKey("a", "x"): PoolState(uid="1"), PoolKey("b", "x"): PoolState(uid="2")})
    assert load_state(dump_state(state)).pools[PoolKey("b", "x")].uid == "2"


def test_numbers_that_json_lacks_come_back() -> None:
    decision = Decision(
        PoolKey("ns", "x"),
        "id",
        None,
        None,
        "",
        "R",
        "",
        trace=(Step("rate", float("inf"), "", ""),),
    )
    nan = Known((EngineSample("0", float("nan"), 0, 0),), 1.0)
    pool = PoolSnapshot(
        PoolKey("ns", "x"),
        "uid",
        1,
        *(Unknown("No"),) * 5,
        pods=(PodState("p", "u", "n", ready=True, created_at=0.0, metrics=nan),),
    )
    assert load_decisions(dump_decisions((decision,))) == (decision,)
    snapshot = Snapshot(1.0, (pool,), Unknown("NoNodeAccess"))
    assert exactly(load_snapshot(dump_snapshot(snapshot))) == exactly(snapshot)


def test_a_record_is_one_line_of_json() -> None:
    data = dump_snapshot(Snapshot(1.5, (), ()))
    assert b"\n" not in data
    assert json.loads(data)[0]["at"] == 1.5


@pytest.mark.parametrize("load", [load_snapshot, load_state, load_decisions])
@pytest.mark.parametrize("data", [b"", b"{", b"3", b'{"at": "x"}', b"[{}]"])
def test_what_is_no_record_is_refused_with_the_place(load: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no (snapshot|state|decisions): "):
        load(data)
