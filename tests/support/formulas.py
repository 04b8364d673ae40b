"""A step of a trace worked out by hand: its formula over its inputs.

The language of formulas, which a person reads without being told:

- `+ - x * / // **`, brackets, numbers, and the functions of `interval.FUNCTIONS`; what an operator
  means and which goes first is as in Python, and `x` is `*`;
- a name is an input of the step, a step before it in the trace, or the step itself (the equation
  then holds for its own value);
- `sum of the inputs` is the sum of every input that is a number;
- `EXPRESSION where NAME = EXPRESSION, NAME = EXPRESSION` says what a name stands for;
- what follows a `;` is a remark.

Inputs `low` and `high` are the band of the value; inputs that are texts only describe. Every other
input must be named in the formula or its remark, and an input that has the name of an earlier step
must have the value of one.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tests.support.interval import FUNCTIONS, Interval

from kvscale.core.trace import Scalar, Step, Trace

BAND = frozenset({"low", "high"})
SUM = "sum of the inputs"
_NAME = re.compile(r"[A-Za-z_]\w*")
_TIMES = re.compile(r"(?<![\w.])x(?![\w.])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DEFINED = re.compile(r",? ([A-Za-z]\w*) = ")

Rounding = Callable[[float], Fraction]
"""How far the number behind a printed float may be from it."""


def exact(_: float) -> Fraction:
    """Floats are as they are written."""
    return Fraction(0)


def four_digits(value: float) -> Fraction:
    """Floats are of four significant digits, as `traffic.residency.significant` rounds."""
    if not value:
        return Fraction(0)
    exponent = int(f"{abs(value):e}".partition("e")[2])
    return Fraction(10) ** (exponent - 3) / 2


def decimals(digits: int) -> Rounding:
    """Floats are rounded to so many decimals."""
    return lambda value: Fraction(1, 2 * 10**digits)


@dataclass(frozen=True)
class Formula:
    """A formula, read.

    Attributes:
        value: the expression.
        where: what its names stand for.
        words: every name in it, those of the remark included.
    """

    value: ast.expr
    where: tuple[tuple[str, ast.expr], ...]
    words: frozenset[str]


@cache
def read(text: str) -> Formula:
    """The formula of that text.

    Raises:
        SyntaxError: it is no arithmetic.
    """
    arithmetic = text.partition("; ")[0]
    value, _, definitions = arithmetic.partition(" where ")
    parts = _DEFINED.split(f" {definitions}")[1:] if definitions else []
    where = tuple(zip(parts[::2], map(_expression, parts[1::2]), strict=True))
    return Formula(_expression(value), where, frozenset(_NAME.findall(text)))


def _expression(text: str) -> ast.expr:
    if text == SUM:
        return ast.Name(SUM)
    return ast.parse(_TIMES.sub("*", _THOUSANDS.sub("", text)), mode="eval").body


_OPERATORS: dict[type[ast.operator], Callable[[Interval, Interval], Interval]] = {
    ast.Add: Interval.__add__,
    ast.Sub: Interval.__sub__,
    ast.Mult: Interval.__mul__,
    ast.Div: Interval.__truediv__,
    ast.FloorDiv: Interval.__floordiv__,
    ast.Pow: Interval.__pow__,
}


def _worked_out(node: ast.expr, names: Mapping[str, Interval]) -> Interval:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Interval.of(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise LookupError(f"{name} is no input and no step before")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worked_out(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_worked_out(left, names), _worked_out(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_worked_out(one, names) for one in arguments))
    raise SyntaxError(ast.unparse(node))


def _number(value: Scalar, rounding: Rounding) -> Interval | None:
    if isinstance(value, str):
        return None
    return Interval.of(value, Fraction(0) if isinstance(value, int) else rounding(value))


def _own(value: Scalar, rounding: Rounding) -> Interval:
    """The value of a step; a float may differ from the true quotient in its last digits."""
    assert not isinstance(value, str), value
    if isinstance(value, int):
        return Interval.of(value)
    return Interval.of(value, rounding(value) + abs(Fraction(str(value))) / 10**12)


def faults(step: Step, before: Iterable[Step], rounding: Rounding = exact) -> list[str]:
    """What keeps a person from finding the value of a step; nothing where it can be found.

    Args:
        step: whose formula is arithmetic.
        before: the steps before it in its trace.
        rounding: of its floats and of theirs.
    """
    try:
        formula = read(step.formula)
    except SyntaxError:
        return [f"{step.name}: {step.formula!r} is no arithmetic"]
    known: dict[str, list[Interval]] = {}
    for one in before:
        number = _number(one.value, rounding)
        if number is not None:
            known.setdefault(one.name, []).append(number)
    inputs = {
        name: number
        for name, value in step.inputs
        if (number := _number(value, rounding)) is not None
    }
    own = _own(step.value, rounding)
    names = {name: values[-1] for name, values in known.items()} | {step.name: own} | inputs
    parts = [number for name, number in inputs.items() if name not in BAND]
    names[SUM] = sum(parts, Interval.of(0))
    found = [*_lost(step, formula, inputs, known), *_wrong(formula, names, own)]
    if inputs.keys() >= BAND and not inputs["low"].low <= own.low <= inputs["high"].high:
        found.append("it is outside its band")
    return [f"{step.name} is {step.value}, {step.formula!r}, {step.inputs}: {one}" for one in found]


def _lost(
    step: Step,
    formula: Formula,
    inputs: Mapping[str, Interval],
    known: Mapping[str, list[Interval]],
) -> Iterable[str]:
    """Inputs that lead nowhere."""
    named = [name for name, _ in step.inputs]
    if len(set(named)) < len(named):
        yield "an input is there twice"
    for name, number in inputs.items():
        if name not in BAND and name not in formula.words and not step.formula.startswith(SUM):
            yield f"the input {name} is not in the formula"
        if name in known and not any(number.meets(other) for other in known[name]):
            yield f"the step {name} has another value"


def _wrong(formula: Formula, names: dict[str, Interval], own: Interval) -> Iterable[str]:
    """Where the arithmetic does not give what it should."""
    try:
        for name, expression in formula.where:
            meant = _worked_out(expression, names)
            if name in names and not meant.meets(names[name]):
                yield f"{name} would be {meant}"
            names.setdefault(name, meant)
        told = _worked_out(formula.value, names)
    except (LookupError, SyntaxError, ZeroDivisionError) as why:
        yield str(why)
        return
    if not told.meets(own):
        yield f"the formula gives {told}"


def trace_faults(
    trace: Trace, statements: Mapping[str, str], rounding: Rounding = exact
) -> list[str]:
    """What a person cannot find by hand in a trace.

    Args:
        trace: its steps, in order.
        statements: by name of a step, the pattern of formulas that only say where the value is
            from; any other formula must be arithmetic.
        rounding: of floats.
    """
    return [
        fault
        for place, step in enumerate(trace)
        if not re.fullmatch(statements.get(step.name, r"\Z "), step.formula)
        for fault in faults(step, trace[:place], rounding)
    ]
