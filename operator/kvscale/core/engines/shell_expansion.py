"""Reads one word of a shell script: quotes, escapes, variables (see `shell_words`)."""

import re
from collections.abc import Mapping, Sequence

from kvscale.core.engines.unread import MARK, Budget, unread

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*])(?:(:?[-=?+])(.*))?", re.DOTALL)
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]")
_BLANK = " \t"
_MAX_LEVEL = 20  # of defaults within defaults


class WordReader:
    """A cursor over text, and the shell's variables at that place."""

    def __init__(
        self,
        text: str,
        env: Mapping[str, str | None],
        budget: Budget,
        positional: tuple[str, ...] = (),
        level: int = 0,
    ) -> None:
        self.text = text
        self.at = 0
        self.env = dict(env)
        self.arrays: dict[str, tuple[str, ...]] = {}
        self.budget = budget
        self.positional = positional
        self.level = level
        self.fields = _Fields()

    def skip_blank(self) -> bool:
        """Past blanks, line continuations and comments."""
        start = self.at
        while self.at < len(self.text):
            if self.text[self.at] in _BLANK:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                break
        return self.at > start

    def word(self, *, split: bool = True) -> list[str]:
        """The fields of the word at the cursor; one unless an unquoted expansion splits it."""
        self.fields = _Fields()
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;&|<>()":
                break
            self._piece(char, split=split)
        if self.at == start:  # never stand still
            self.at += 1
        return self.fields.done()

    def rest(self) -> list[str]:
        """All the words from the cursor on."""
        words: list[str] = []
        while self.at < len(self.text):
            if not self.skip_blank():
                words += self.word()
        return words

    def _piece(self, char: str, *, split: bool) -> None:
        text = self.text
        if char == "\\":
            following = text[self.at + 1 : self.at + 2]
            self.fields.add("" if following == "\n" else following)
            self.at += 2
        elif char == "'":
            end = text.find("'", self.at + 1)
            end = len(text) if end < 0 else end
            self.fields.add(text[self.at + 1 : end])
            self.at = end + 1
        elif char == '"':
            self._double_quoted()
        elif char in "$`":
            self._expansion(split=split)
        elif char == MARK:
            end = text.find(MARK, self.at + 1)
            end = len(text) if end < 0 else end
            self.fields.add(text[self.at : end] + MARK)
            self.at = end + 1
        else:
            self.fields.add(char)
            self.at += 1

    def _double_quoted(self) -> None:
        self.at += 1
        self.fields.add("")
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                following = self.text[self.at + 1]
                self.fields.add("" if following == "\n" else following)
                self.at += 2
            elif char in "$`":
                self._expansion(split=False)
            else:
                self.fields.add(char)
                self.at += 1
        self.at += 1

    def _expansion(self, *, split: bool) -> None:
        """What `$` or a backquote at the cursor stands for."""
        text = self.text
        if text[self.at] == "`":
            end = text.find("`", self.at + 1)
            end = len(text) if end < 0 else end
            self.fields.add(unread(text[self.at + 1 : end]))
            self.at = end + 1
            return
        self.at += 1
        name = _NAME.match(text, self.at)
        if text.startswith("(", self.at):
            self.fields.add(unread(self.balanced()))
        elif text.startswith("{", self.at):
            self._braced(self.balanced("{", "}"), split=split)
        elif name is not None:
            self.at = name.end()
            self.fields.splice(self.value_of(name[0]), split=split)
        elif self.at < len(text) and text[self.at] in "@*0123456789":
            self.at += 1
            self._parameter(text[self.at - 1], split=split)
        elif self.at < len(text) and text[self.at] in "#?$!-":
            self.at += 1
            self.fields.add(unread(f"${text[self.at - 1]}"))
        else:
            self.fields.add("$")

    def _braced(self, body: str, *, split: bool) -> None:
        array = _ARRAY.fullmatch(body)
        match = _BRACED.fullmatch(body)
        if array is not None:
            self._each(self.arrays.get(array[1], (unread(array[1]),)), array[1])
        elif match is None or self.level > _MAX_LEVEL:
            self.fields.add(unread(body))
        elif match[2] is None and not _NAME.match(body):
            self._parameter(body, split=split)
        elif match[2] in {":-", "-", ":=", "="} and self._is_unset(match[1], match[2]):
            default = WordReader(match[3], self.env, self.budget, self.positional, self.level + 1)
            self.fields.splice(" ".join(default.rest()), split=split)
        elif match[2] in {":+", "+"}:
            self.fields.add(unread(body))
        else:
            self.fields.splice(self.value_of(match[1]), split=split)

    def _is_unset(self, name: str, operator: str) -> bool:
        """Whether a default applies; a variable that is set but not readable keeps its value."""
        if name not in self.env:
            return True
        return operator.startswith(":") and self.env[name] == ""

    def _parameter(self, name: str, *, split: bool) -> None:
        if name in "@*":
            self._each(self.positional[1:], name)
            return
        index = int(name)
        known = index < len(self.positional)
        value = self.positional[index] if known else ""
        self.fields.splice(self.budget.take(value, f"${name}"), split=split)

    def _each(self, values: Sequence[str], name: str) -> None:
        """Several values, a field each, or one unread field when they exceed the budget."""
        total = sum(len(value) + 1 for value in values)  # an empty field costs as well
        if not self.budget.spend(total):
            values = (unread(name),)
        for index, value in enumerate(values):
            if index:
                self.fields.end()
            self.fields.add(value)

    def value_of(self, name: str) -> str:
        """A variable's value; unread if it has none that is known."""
        value = self.env.get(name)
        return unread(name) if value is None else self.budget.take(value, name)

    def balanced(self, opening: str = "(", closing: str = ")") -> str:
        """Text within the bracket at the cursor; the cursor goes past it."""
        depth, start = 0, self.at
        while self.at < len(self.text):
            depth += {opening: 1, closing: -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                return self.text[start + 1 : self.at - 1]
        return self.text[start + 1 :]


class _Fields:
    """The fields that one word of the script becomes."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.current: list[str] | None = None

    def add(self, text: str) -> None:
        """More text of the current field; an empty one (quotes) begins it."""
        if self.current is None:
            self.current = []
        self.current.append(text)

    def end(self) -> None:
        if self.current is not None:
            self.ended.append("".join(self.current))
        self.current = None

    def splice(self, value: str, *, split: bool) -> None:
        """The value of a variable; unquoted, blanks in it end fields."""
        if not split:
            self.add(value)
            return
        for index, piece in enumerate(re.split(r"[ \t\n]+", value)):
            if index:
                self.end()
            if piece:
                self.add(piece)

    def done(self) -> list[str]:
        self.end()
        return self.ended
