"""Reads a shell script into the simple commands that it would run, as far as text tells.

POSIX shell quoting, comments, line continuations, `;` `&&` `||` `|` `&`, assignments, `$NAME`,
`${NAME}`, `${NAME:-default}`, positional parameters, redirections, here-documents, and bash arrays
(IEEE Std 1003.1-2017, Shell Command Language, 2.2 to 2.9). Nothing is run: command substitution
and variables without a known value become unread text. Branches are not decided: the commands of
all of them are returned, and a variable set in one is unread afterwards.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvscale.core.engines.shell_expansion import WordReader
from kvscale.core.engines.unread import unread

MAX_SCRIPT = 100_000
"""Characters of a script that are looked at; a ConfigMap's limit is 1 MiB, a sane one is 10 KiB."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|>>|>&|<&|>\||<>|[<>]")
_SEPARATOR = re.compile(r"&&|\|\||;;|[;&|\n()]")
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_RESERVED = frozenset({"then", "else", "elif", "do", "!", "{", "}", "time"})
_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command: its words after expansion, and the variables when it starts."""

    words: tuple[str, ...]
    env: Mapping[str, str | None]


def simple_commands(
    script: str, env: Mapping[str, str | None], positional: Sequence[str] = ()
) -> tuple[SimpleCommand, ...]:
    """The simple commands of a script in the order of its text.

    Args:
        script: the text after `sh -c`.
        env: the container's variables; None where a value cannot be read.
        positional: the words after the script: `$0`, `$1`, ...
    """
    reader = _Reader(script.replace("\r\n", "\n")[:MAX_SCRIPT], env, tuple(positional))
    return tuple(reader.run())


class _Reader(WordReader):
    """Reads commands, and follows what they do to the variables."""

    def __init__(
        self, text: str, env: Mapping[str, str | None], positional: tuple[str, ...]
    ) -> None:
        super().__init__(text, env, positional)
        self.depth = 0  # of branches and loops
        self.uncertain = False  # after ||
        self.heredocs: list[str] = []
        self.commands: list[SimpleCommand] = []
        self.words: list[str] = []

    def run(self) -> list[SimpleCommand]:
        while self.at < len(self.text):
            if self.skip_blank():
                continue
            redirection = _REDIRECTION.match(self.text, self.at)
            separator = _SEPARATOR.match(self.text, self.at)
            if redirection:
                self._redirect(redirection[0])
            elif separator:
                self._separate(separator[0])
            elif self._assign():
                continue
            else:
                self.words += self.word()
                self._reserved()
        self._end_command()
        return self.commands

    def _separate(self, operator: str) -> None:
        self.at += len(operator)
        self._end_command()
        self.uncertain = operator == "||"
        if operator == "\n":
            for delimiter in self.heredocs:
                end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
                    self.text, self.at
                )
                self.at = len(self.text) if end is None else min(end.end() + 1, len(self.text))
            self.heredocs.clear()

    def _end_command(self) -> None:
        if self.words:
            if self.words[0] in _DECLARING:
                for word in self.words[1:]:
                    match = _ASSIGNMENT.match(word)
                    if match is not None:
                        self._set(match[1], word[match.end() :])
            elif self.words[0] in {"unset", "read"}:
                self.env.update(dict.fromkeys(self.words[1:]))
            self.commands.append(SimpleCommand(tuple(self.words), dict(self.env)))
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
            self.arrays[name] = (*before, *self._array())
            return True
        value = " ".join(self.word(split=False))
        before_text = (self.env.get(name) or "") if append else ""
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
