"""Reading a user's files: bounded, and every failure is one line that names the option."""

import json
from pathlib import Path
from typing import Any

import yaml

from kvscale.cli.errors import fail
from kvscale.cli.output import one_line

LARGEST_JSON = 4 << 20
LARGEST_YAML = 1 << 20
"""A Kubernetes object is at most 1.5 MiB, and most of one is what the API server adds."""

DEEPEST = 100

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
        with path.open("rb") as file:
            content = file.read(largest + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        fail(f"{option}: {path} cannot be read: {error.strerror or type(error).__name__}")
    except UnicodeDecodeError:
        fail(f"{option}: {path} is not UTF-8 text")
    if len(content) > largest:
        fail(f"{option}: {path} is larger than {largest >> 20} MiB: name the right file")
    return text


def read_json(path: Path, option: str) -> Object:
    """The JSON object in a file."""
    text = read_text(path, option, LARGEST_JSON)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{option}: {path} is not JSON: {_why(error)}")
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


def _check_structure(text: str) -> None:
    """Refuse what is small as text and endless as values, before any value is built.

    Raises:
        YAMLError: it uses aliases (nine of them can name a billion values), is nested too deeply,
            or is not YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"line {line}: aliases are not read, write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise yaml.YAMLError(f"line {line}: it is nested too deeply")


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
