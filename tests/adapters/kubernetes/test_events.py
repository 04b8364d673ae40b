"""Events: said once, short enough to be accepted, and never in the way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.fake_api import FakeApi, Fault
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.events import Announcer, _cut
from kvscale.core.spec import PoolKey
from kvscale.ports import EventNote

PATH = "/apis/events.k8s.io/v1/namespaces/prod/events"


def note(message: str = "2 -> 3", uid: str = "u1", reason: str = "ScaledUp") -> EventNote:
    return EventNote(PoolKey("prod", "llama"), uid, "Normal", reason, "Scale", message)


@pytest.fixture
def announcer(api: FakeApi, client: Client, now: Any) -> Announcer:
    api.writes["POST", PATH] = lambda request: (201, request.body)
    return Announcer(client, "kvscale-0", now)


def test_event_names_its_pool_and_its_sender(api: FakeApi, announcer: Announcer) -> None:
    announcer.post(note())
    body = api.last("write").body
    assert body["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert body["regarding"]["uid"] == "u1"
    assert body["regarding"]["kind"] == "InferencePool"
    assert (body["reason"], body["action"], body["note"]) == ("ScaledUp", "Scale", "2 -> 3")
    assert body["reportingInstance"] == "kvscale-0"


def test_same_words_about_a_pool_are_said_once_in_two_minutes(
    api: FakeApi, announcer: Announcer, now: Any
) -> None:
    announcer.post(note())
    now.at += 119.0
    announcer.post(note())
    assert api.count("write") == 1
    now.at += 1.0
    announcer.post(note())
    assert api.count("write") == 2


def test_other_words_and_other_pools_are_said(api: FakeApi, announcer: Announcer) -> None:
    announcer.post(note())
    announcer.post(note("3 -> 4"))
    announcer.post(note(reason="Held"))
    announcer.post(note(uid="u2"))
    assert api.count("write") == 4


@pytest.mark.parametrize("fault", [Fault(status=403), Fault(reset=True)])
def test_event_that_could_not_be_posted_is_logged_and_may_be_said_again(
    api: FakeApi, announcer: Announcer, caplog: Any, fault: Fault
) -> None:
    api.fail("write", fault)
    announcer.post(note())
    assert "event ScaledUp about prod/llama was not posted" in caplog.text
    announcer.post(note())
    assert api.count("write") == 2


def test_long_message_is_cut_to_what_the_server_accepts(api: FakeApi, announcer: Announcer) -> None:
    announcer.post(note("x" * 5000))
    sent = api.last("write").body["note"]
    assert len(sent) == 1024
    assert sent.endswith("...")


@given(text=st.text(max_size=100), limit=st.integers(3, 60))
def test_cut_never_exceeds_its_limit_in_bytes_nor_breaks_a_character(text: str, limit: int) -> None:
    cut = _cut(text, limit)
    assert len(cut.encode()) <= limit
    assert cut == text or text.startswith(cut.removesuffix("..."))
