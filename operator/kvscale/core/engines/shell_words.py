"""Reads a shell script into the simple commands that it would run, as far as text tells.

POSIX shell quoting, comments, line continuations, `;` `&&` `||` `|` `&`, assignments, `$NAME`,
`${NAME}`, `${NAME:-default}`, positional parameters, redirections, here-documents, and bash arrays
(IEEE Std 1003.1-2017, Shell Command Language, 2.2 to 2.9). Nothing is run: command substitution
and variables without a known value become unread text. Branches are not decided: the commands of
all of them are returned, and a variable set in one is unread afterwards.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvscale.core.engines.shell_expansion import WordReader
from kvscale.core.engines.unread import Budget, unread

MAX_SCRIPT = 50_000
"""Characters of a script that are looked at; those in manifests have a few thousand."""
REST = unread("the rest")
"""Stands for what is not looked at; twice, because a flag may take the first as its value."""
MAX_EXPANDED = 1_000_000
"""Characters that the variables of a script may add."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|>>|>&|<&|>\||<>|[<>]")
_SEPARATOR = re.compile(r"&&|\|\||;;|[;&|\n()]")
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_RESERVED = frozenset({"then", "else", "elif", "do", "!", "{", "}", "time"})
_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command: its words after expansion, and the variables when it starts.

    `env` is the reader's own: it changes when the next command is read.
    """

    words: tuple[str, ...]
    env: Mapping[str, str | None]


def simple_commands(
    script: str,
    env: Mapping[str, str | None],
    positional: Sequence[str] = (),
    budget: Budget | None = None,
) -> Iterator[SimpleCommand]:
    """The simple commands of a script in the order of its text.

    Args:
        script: the text after `sh -c`.
        env: the container's variables; None where a value cannot be read.
        positional: the words after the script: `$0`, `$1`, ...
        budget: of expansion; shared by nested shells. None: one of its own.
    """
    text = script.replace("\r\n", "\n")
    if len(text) > MAX_SCRIPT:
        text = f"{text[:MAX_SCRIPT]} {REST} {REST}"
    return _Reader(text, env, budget or Budget(MAX_EXPANDED), tuple(positional)).run()


class _Reader(WordReader):
    """Reads commands, and follows what they do to the variables."""

    def __init__(
        self,
        text: str,
        env: Mapping[str, str | None],
        budget: Budget,
        positional: tuple[str, ...],
    ) -> None:
        super().__init__(text, env, budget, positional)
        self.depth = 0  # of branches and loops
        self.uncertain = False  # after ||
        self.heredocs: list[str] = []
        self.words: list[str] = []

    def run(self) -> Iterator[SimpleCommand]:
        while self.at < len(self.text):
            if self.skip_blank():
                continue
            redirection = _REDIRECTION.match(self.text, self.at)
            separator = _SEPARATOR.match(self.text, self.at)
            if redirection:
                self._redirect(redirection[0])
            elif separator:
                self.at += len(separator[0])
                yield from self._end_command()
                self._after(separator[0])
            elif self._assign():
                continue
            else:
                self.words += self.word()
                self._reserved()
        yield from self._end_command()

    def _after(self, operator: str) -> None:
        self.uncertain = operator == "||"
        if operator == "\n":
            for delimiter in self.heredocs:
                end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
                    self.text, self.at
                )
                self.at = len(self.text) if end is None else min(end.end() + 1, len(self.text))
            self.heredocs.clear()

    def _end_command(self) -> Iterator[SimpleCommand]:
        if self.words:
            if self.words[0] in _DECLARING:
                for word in self.words[1:]:
                    match = _ASSIGNMENT.match(word)
                    if match is not None:
                        self._set(match[1], word[match.end() :])
            elif self.words[0] in {"unset", "read"}:
                self.env.update(dict.fromkeys(self.words[1:]))
            yield SimpleCommand(tuple(self.words), self.env)
            self.words = []

    def _reserved(self) -> None:
        """Drop reserved words at the start of a command, and count the branches."""
        if len(self.words) != 1:
            if len(self.words) == 2 and self.words[0] in {"for", "select"}:  # noqa: PLR2004, the word and its variable
                self.env[self.words[1]] = None
            return
        word = self.words[0]
        if word in _OPENING:
            self.depth += 1
        if word in _CLOSING:
            self.depth = max(0, self.depth - 1)
        if word in _RESERVED or word in _CLOSING or word in {"if", "while", "until"}:
            self.words = []

    def _redirect(self, operator: str) -> None:
        adjacent = self.at > 0 and self.text[self.at - 1].isdigit()
        if adjacent and self.words and self.words[-1].isdigit():
            self.words.pop()  # the descriptor of 2>file
        self.at += len(operator)
        if self.text.startswith("(", self.at):  # process substitution
            self.words.append(unread(self.balanced()))
            return
        while self.skip_blank():
            pass
        target = self.word()
        if operator in {"<<", "<<-"} and target:
            self.heredocs.append(target[0])

    def _assign(self) -> bool:
        """NAME=value at the start of a command."""
        match = _ASSIGNMENT.match(self.text, self.at)
        if match is None or self.words:
            return False
        self.at = match.end()
        name, append = match[1], match[2] == "+"
        if self.text.startswith("(", self.at):
            self.at += 1
            before = self.arrays.get(name, ()) if append else ()
            if not self.budget.spend(len(before)):
                before = (unread(name),)
            self.arrays[name] = (*before, *self._array())
            return True
        value = " ".join(self.word(split=False))
        before_text = self.value_of(name) if append and name in self.env else ""
        self._set(name, before_text + value)
        return True

    def _set(self, name: str, value: str) -> None:
        self.env[name] = None if self.depth or self.uncertain else value

    def _array(self) -> list[str]:
        words: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.skip_blank():
                continue
            if self.text[self.at] in ";&|<>(\n":
                self.at += 1
                continue
            words += self.word()
        self.at += 1
        return [unread("array")] if self.depth or self.uncertain else words
