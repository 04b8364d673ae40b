"""Reads the flags of a server as its own parser does: spellings and values.

Which flags there are, and how their words are parted, says the table of each engine (`FlagTable`).
The most is asked by vLLM's parser (vllm/utils/argparse_utils.py, FlexibleArgumentParser over
argparse): underscores in a flag are dashes, `--flag value` and `--flag=value` are the same, an
unambiguous prefix of a flag is the flag, the last of several wins, a dotted flag sets a key of a
JSON value, sizes may be written 32k (thousands) or 32K (binary).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kvscale.core.engines.config import AUTO_LENGTH
from kvscale.core.engines.flag import FlagTable, Kind
from kvscale.core.engines.unread import MARK, shown
from kvscale.core.engines.vllm.flag_table import VLLM_FLAGS

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([kKmMgGtT])")
_DECIMAL = MappingProxyType({"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12})
_BINARY = MappingProxyType({"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40})
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")


@dataclass(frozen=True, slots=True)
class Stated:
    """What a command line states.

    Attributes:
        values: long flag name to its text; a switch is "true" or "false". May hold unread text.
        positional: words that belong to no flag.
        open_ended: words in the place of a flag that cannot be read; any flag may be in them.
        problems: what the engine itself would reject, for a person.
    """

    values: dict[str, str]
    positional: tuple[str, ...]
    open_ended: tuple[str, ...]
    problems: tuple[str, ...]


def resolve_name(written: str, table: FlagTable = VLLM_FLAGS) -> str:
    """The long name of a flag as written; the written one if it is none that is known."""
    if not written.startswith("--"):
        return table.short.get(written, written)
    name = _separated(written, table.separator)
    name = table.short.get(name, name)
    positive = f"--{name.removeprefix('--no-')}"
    if name in table.known:
        return name
    if name.startswith("--no-") and positive in table.known:
        return name
    candidates = [known for known in table.known if known.startswith(name)]
    return candidates[0] if len(candidates) == 1 else name


def _separated(written: str, separator: str) -> str:
    """The flag with its words parted as the server parts them; both are accepted or meant."""
    other = "_" if separator == "-" else "-"
    return "--" + written.removeprefix("--").replace(other, separator)


def read_flags(arguments: Sequence[str], table: FlagTable = VLLM_FLAGS) -> Stated:
    """What the arguments after a server's program state."""
    values: dict[str, str] = {}
    positional: list[str] = []
    open_ended: list[str] = []
    problems: list[str] = []
    queue = [word for word in arguments if word != "--"]
    at = 0
    while at < len(queue):
        word = queue[at]
        at += 1
        if not _is_flag(word):
            # the first positional is the model even when unread; later ones may hold flags
            if MARK in word and (positional or at > 1):
                open_ended.append(word)
            else:
                positional.append(word)
            continue
        written, equals, value = word.partition("=")
        written, _, key = written.partition(".") if written.startswith("--") else (written, "", "")
        if " " in written.strip():
            problems.append(
                f"{shown(word)!r} is one argument with a blank in it, which the engine rejects: "
                "write flag and value as two"
            )
            continue
        name = resolve_name(written.strip(), table)
        positive = f"--{name.removeprefix('--no-')}"
        if name in table.switches or positive in table.switches:
            said = value if equals else _boolean_after(queue, at)
            at += bool(said) and not equals
            negated = name.startswith("--no-") and name not in table.switches
            values[positive if negated else name] = _truth(said, negated=negated)
            continue
        end = at if equals else _end_of_values(queue, at)
        if name in table.by_name and not equals:
            value = queue[at] if at < end else ""
            end = end if name in table.several else min(end, at + 1)
            if not value:
                problems.append(f"{name} has no value")
        open_ended += [word for word in queue[at + 1 : end] if MARK in word]
        at = end
        if key:
            values[f"{name}.{key.replace('-', '_')}"] = value
        elif value or equals:
            values[name] = value
    return Stated(values, tuple(positional), tuple(open_ended), tuple(problems))


def parse_value(kind: Kind, text: str) -> int | str | bool | None:
    """The value of a readable text: -1 for LENGTH's `auto` too, None for CHUNK's -1.

    Raises:
        ValueError: the text is no such value; the message says what one is.
    """
    text = text.strip()
    if kind is Kind.TEXT:
        return text
    if kind is Kind.SWITCH:
        return text == "true"
    if kind is Kind.LENGTH and text.lower() in {"-1", "auto"}:
        return AUTO_LENGTH
    if kind is Kind.CHUNK and text == "-1":
        return None
    number = (
        _fraction(text) if kind is Kind.FRACTION else _whole(text, sizes=kind is not Kind.COUNT)
    )
    if number is None or number <= 0:
        raise ValueError(f"{text!r} is not {kind.value}")
    return number


def _whole(text: str, *, sizes: bool) -> int | None:
    """A number as vLLM's human_readable_int reads it: 1.5k is 1500, 2K is 2048, 1.5K is none."""
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    match = _SIZE.fullmatch(text) if sizes else None
    if match is None or not text.isascii():
        return None
    number, suffix = match.groups()
    if suffix in _BINARY:
        return int(number) * _BINARY[suffix] if "." not in number else None
    whole, _, decimals = number.partition(".")
    return int(whole + decimals) * _DECIMAL[suffix] // int("1" + "0" * len(decimals))


def _fraction(text: str) -> int | None:
    """Thousandths, rounded down: less memory is the safe side."""
    match = re.fullmatch(r"(\d{0,3})\.?(\d{0,18})", text, re.ASCII)
    if match is None or not (match[1] or match[2]):
        return None
    milli = int((match[1] or "0") + (match[2] + "000")[:3])
    return milli if milli <= 1000 else None  # noqa: PLR2004, one in thousandths


def _is_flag(word: str) -> bool:
    return word.lstrip().startswith("-") and len(word) > 1 and not _NEGATIVE.fullmatch(word)


def _end_of_values(queue: Sequence[str], at: int) -> int:
    """Where the values of a flag end: some take several."""
    while at < len(queue) and not _is_flag(queue[at]):
        at += 1
    return at


def _boolean_after(queue: Sequence[str], at: int) -> str:
    """A switch's value as a word of its own, which old versions took."""
    following = queue[at].lower() if at < len(queue) else ""
    return following if following in {"true", "false"} else ""


def _truth(said: str, *, negated: bool) -> str:
    return "false" if negated != (said.strip().lower() in {"false", "0"}) else "true"
