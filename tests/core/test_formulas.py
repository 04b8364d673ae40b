"""The reading of formulas itself, and that a wrong one is found."""

import re
from dataclasses import replace

import pytest
from tests.support.engine_cases import starting
from tests.support.formulas import faults, four_digits, read, trace_faults
from tests.support.statements import OF_CAPACITY

from kvscale.core.engines.config import EngineKind
from kvscale.core.trace import Step

MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-20b", "google/gemma-3-4b-it",
          "nvidia/Nemotron-H-56B-Base-8K", "deepseek-ai/DeepSeek-V3.2")  # fmt: skip


def step(value, formula, **inputs):
    return Step("result", value, "", formula, tuple(inputs.items()))


RIGHT = [
    step(7, "a x b + 1", a=2, b=3),
    step(2, "ceil(a / b); a remark on c", a=3, b=2, c="text"),
    step(0.914, "floor(a, 3)", a=0.9149),
    step(6, "sum of the inputs; parts", a=1, b=5),
    step(8, "max(a, b) where a = b x 2", a=8, b=4),
    step(1_000_000, "a * 1,000,000", a=1),
    step(3, "a", a=3, low=2, high=4),
    step(0, "max(0, a - b)", a=1, b=2),
    step(2.0, "a / result", a=4),  # it solves its own equation
]
WRONG = [
    (step(8, "a x b + 1", a=2, b=3), "gives 7"),
    (step(7, "a x b + 1", a=2, b=3, c=4), "c is not in the formula"),
    (step(7, "a x c", a=2), "c is no input"),
    (step(1.5, "a / b", a=3, b=0), "by a number"),
    (step(8, "max(a, b) where a = b x 3", a=8, b=4), "a would be 12"),
    (step(3, "a", a=3, low=4, high=5), "outside its band"),
    (step(3, "three of them", a=3), "no arithmetic"),
    (step(3, "a, b", a=3, b=3), "Tuple|\\(a, b\\)"),
    (replace(step(3, "a", a=3), inputs=(("a", 3), ("a", 4))), "twice"),
]


@pytest.mark.parametrize("right", RIGHT, ids=lambda one: one.formula)
def test_what_is_right_passes(right):
    assert not faults(right, ())


@pytest.mark.parametrize(("wrong", "why"), WRONG, ids=lambda one: getattr(one, "formula", ""))
def test_what_is_wrong_is_told(wrong, why):
    (fault, *_) = faults(wrong, ())
    assert re.search(why, fault), fault


def test_a_name_is_an_earlier_step_of_the_same_value():
    before = Step("blocks", 40, "blocks", "", ())
    assert not faults(step(80, "blocks x 2"), [before])
    assert not faults(step(80, "blocks x 2", blocks=40), [before])
    assert faults(step(82, "blocks x 2", blocks=41), [before])


def test_rounded_inputs_leave_room_for_what_was_rounded_and_no_more():
    assert not faults(step(0.3333, "a * b", a=0.6666, b=0.5), (), four_digits)
    assert not faults(step(3, "ceil(a)", a=2.0), (), four_digits)
    assert faults(step(3, "ceil(a)", a=1.98), (), four_digits)
    assert faults(step(0.34, "a * b", a=0.6666, b=0.5), (), four_digits)


def traces():
    return [
        capacity.trace
        for model in MODELS
        for kind in EngineKind
        for _, capacity in starting(model, kind, 6)
    ]


def arithmetic(trace):
    """The steps that are worked out, with what comes before each."""
    for place, one in enumerate(trace):
        if trace_faults((replace(one, value=-1),), OF_CAPACITY):  # no statement
            yield one, trace[:place]


def test_a_value_that_is_off_by_one_is_found():
    for trace in traces():
        for one, before in arithmetic(trace):
            assert not faults(one, before)
            more = 1 if isinstance(one.value, int) else one.value * 1e-4
            assert faults(replace(one, value=one.value + more), before), one


MUTANTS = {
    " x ": " + ", " - ": " + ", " // ": " x ", "ceil(": "floor(", "min(": "max(", " / ": " x ",
    " + ": " - ",
}  # fmt: skip


@pytest.mark.parametrize(("was", "becomes"), MUTANTS.items())
def test_a_formula_with_another_operator_is_found(was, becomes):
    seen = found = 0
    for trace in traces():
        for one, before in arithmetic(trace):
            value, mark, remark = one.formula.partition("; ")
            if was not in value:
                continue
            seen += 1
            changed = value.replace(was, becomes, 1) + mark + remark
            found += bool(faults(replace(one, formula=changed), before))
    assert seen
    # Rounding up or down what is whole, and adding nothing, are the same.
    assert found > seen / 3


def test_every_formula_is_read_once():
    assert read("a + b") is read("a + b")
