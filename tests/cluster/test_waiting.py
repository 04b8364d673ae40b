"""`eventually`: what a failing wait tells."""

import itertools

import pytest

from localcluster import eventually


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([None, 0, "yes", "later"])
    assert eventually(lambda: next(answers), every=0) == "yes"


def test_the_error_names_the_condition_and_the_last_answer() -> None:
    numbers = itertools.count(-3)  # 0 is the only false one, and it is reached
    with pytest.raises(AssertionError, match=r"a pod is ready: not within 0 s; last seen: 0"):
        eventually(lambda: min(next(numbers) + 3, 0), "a pod is ready", within=0)


def test_a_failed_assertion_means_not_yet() -> None:
    numbers = itertools.count()

    def check() -> str:
        assert next(numbers) == 2, "not the third call"
        return "third"

    assert eventually(check, every=0) == "third"


def test_a_named_exception_means_not_yet_and_is_shown_at_the_end() -> None:
    def check() -> bool:
        raise ConnectionError("refused")

    with pytest.raises(AssertionError, match="last seen: refused"):
        eventually(check, within=0, retry_on=(ConnectionError,))


def test_any_other_exception_ends_the_wait() -> None:
    calls = []

    def check() -> bool:
        calls.append(1)
        raise KeyError("a mistake in the test")

    with pytest.raises(KeyError):
        eventually(check)
    assert len(calls) == 1


def test_a_hopeless_wait_is_given_up_at_once() -> None:
    with pytest.raises(AssertionError, match="etcd ready: it ended"):
        eventually(lambda: False, "etcd ready", within=3600, give_up=lambda: "it ended")
