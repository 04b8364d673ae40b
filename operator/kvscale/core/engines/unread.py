"""Text of which a part cannot be read: the name of the part stands in it between two NUL marks.

No argument and no environment variable of a process can hold a NUL, so the mark is unambiguous,
and text with marks goes through quoting, splitting and flag parsing like any other.
"""

import re

MARK = "\0"
NO_BREAK = "\u00a0"  # a name must survive the splitting at blanks
_NAME = re.compile(r"\0([^\0]*)\0")


def unread(name: str) -> str:
    """Text in the place of something that cannot be read, by its name."""
    words = name.replace(MARK, "").split()
    return f"{MARK}{NO_BREAK.join(words)[:60]}{MARK}"


def shown(text: str) -> str:
    """The text for a person: what could not be read stands as `$(NAME)`."""
    return clean(_NAME.sub(r"$(\1)", text))


def clean(text: str) -> str:
    """Text from outside, without marks."""
    return text.replace(MARK, "")


class Budget:
    """Characters that expansion may still produce.

    A variable that names another twice doubles; a hundred of them in a row would fill any memory.
    """

    def __init__(self, characters: int) -> None:
        self.left = characters

    def spend(self, characters: int) -> bool:
        """Whether so many more are allowed; they are then spent."""
        allowed = characters <= self.left
        self.left -= characters if allowed else 0
        return allowed

    def take(self, text: str, name: str) -> str:
        """The text, or that `name` is unread when the budget does not reach."""
        return text if self.spend(len(text)) else unread(name)
