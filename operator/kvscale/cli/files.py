"""Reading a user's files: bounded, and every failure is one line that names the option."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from kvscale.cli.errors import fail
from kvscale.cli.output import one_line

LARGEST_JSON = 4 << 20
LARGEST_YAML = 1 << 20
"""A Kubernetes object is at most 1.5 MiB, and most of one is what the API server adds."""

DEEPEST = 100
LONGEST_PATH = 200
ENDLESS_NUMBER = re.compile(r"[-+0-9_:.]{1000,}")
"""YAML 1.1 reads 1:30:00 as a number to the base of 60, in time that grows with its square."""

Object = dict[str, Any]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Plain values only; libyaml's parser where there is one, which is 20 times as fast."""


def read_text(path: Path, option: str, largest: int) -> str:
    """The text of a file.

    Args:
        path: of the file.
        option: that named it, for messages.
        largest: bytes; more is refused unread.
    """
    try:
        return read_bytes(path, option, largest).decode("utf-8-sig")
    except UnicodeDecodeError:
        fail(f"{option}: {shown_path(path)} is not UTF-8 text")


def read_bytes(path: Path, option: str, largest: int) -> bytes:
    """The content of a file, which may be endless (a device) or not be there.

    Args:
        path: of the file.
        option: that named it, for messages.
        largest: bytes; more is refused unread.
    """
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        fail(f"{option}: {shown_path(path)} cannot be read: {why}")
    if len(content) > largest:
        fail(
            f"{option}: {shown_path(path)} is larger than {largest >> 20} MiB: name the right file"
        )
    return content


def in_directory(path: Path, name: str) -> Path:
    """The file of that name if the path is a directory, the path itself otherwise.

    One that cannot be looked at is taken for a file: reading it says why.
    """
    try:
        return path / name if path.is_dir() else path
    except OSError:
        return path


def exists(path: Path) -> bool:
    """Whether there is such a file, as far as one may see."""
    try:
        return path.is_file()
    except OSError:
        return False


def shown_path(path: Path) -> str:
    """The path for a message."""
    text = str(path)
    return text if len(text) <= LONGEST_PATH else f"{text[: LONGEST_PATH - 1]}…"


def read_json(path: Path, option: str) -> Object:
    """The JSON object in a file."""
    text = read_text(path, option, LARGEST_JSON)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{option}: {shown_path(path)} is not JSON: {_why(error)}")
    if not isinstance(value, dict):
        fail(f"{option}: {path} holds no JSON object")
    return value


def read_manifests(path: Path, option: str) -> list[Object]:
    """The Kubernetes objects in a file of YAML documents (JSON is YAML); a List is unfolded."""
    text = read_text(path, option, LARGEST_YAML)
    try:
        _check_structure(text)
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        fail(f"{option}: {path} is not YAML: {_why(error)}")
    found: list[Object] = []
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            fail(f"{option}: {path} holds something that is no Kubernetes object (no kind)")
        items = document.get("items")
        if document["kind"] == "List" and isinstance(items, list):
            found += [item for item in items if isinstance(item, dict)]
        else:
            found.append(document)
    if not found:
        fail(f"{option}: {path} is empty")
    return found


def read_mapping(path: Path, option: str) -> Object:
    """The names and values in a file of YAML or JSON."""
    text = read_text(path, option, LARGEST_YAML)
    try:
        _check_structure(text)
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, see above
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        fail(f"{option}: {shown_path(path)} is not YAML: {_why(error)}")
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        fail(f"{option}: {shown_path(path)} holds no names with values, as in NVIDIA-L4: 0.80")
    return value


def _check_structure(text: str) -> None:
    """Refuse what is small as text and endless as values, before any value is built.

    Raises:
        YAMLError: it uses aliases (nine of them can name a billion values), is nested too deeply,
            names a key twice (the second would win unseen), holds an endless number, or is not
            YAML.
    """
    open_ones: list[_Open] = []
    for event in yaml.parse(text, Loader=_Loader):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"line {line}: aliases are not read, write the value out")
        if isinstance(event, yaml.CollectionEndEvent):
            open_ones.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        twice = open_ones[-1].repeated(event) if open_ones else None
        if twice is not None:
            raise yaml.YAMLError(f"line {line}: {twice!r} is there twice: leave one out")
        if isinstance(event, yaml.ScalarEvent) and ENDLESS_NUMBER.fullmatch(event.value):
            raise yaml.YAMLError(f"line {line}: a number of {len(event.value)} characters")
        if isinstance(event, yaml.CollectionStartEvent):
            open_ones.append(_Open(is_mapping=isinstance(event, yaml.MappingStartEvent)))
            if len(open_ones) > DEEPEST:
                raise yaml.YAMLError(f"line {line}: it is nested too deeply")


class _Open:
    """A collection whose end has not been met: in a mapping, keys and values take turns."""

    def __init__(self, *, is_mapping: bool) -> None:
        self._is_key = is_mapping
        self._is_mapping = is_mapping
        self._keys: set[str] = set()

    def repeated(self, event: yaml.NodeEvent) -> str | None:
        """The node, the next in the collection, if it is a key that is there already."""
        is_key, self._is_key = self._is_key, self._is_mapping and not self._is_key
        if not is_key or not isinstance(event, yaml.ScalarEvent):
            return None
        key = str(event.value)
        if key in self._keys:
            return key
        self._keys.add(key)
        return None


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
