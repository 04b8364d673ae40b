"""How every command speaks: a table, JSON or YAML on stdout; one line on stderr when it cannot.

Exit codes: 0 done, 1 a check failed, 2 the input is wrong or is refused.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NoReturn

import typer
import yaml

from kvscale.cli.errors import fail
from kvscale.core.refusal import Refusal

LONGEST_MESSAGE = 600


class Output(StrEnum):
    """What a command prints."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="table for people; json or yaml for scripts")
]
"""The option of every command that has a document."""


def emit(document: Mapping[str, Any], page: Sequence[str], output: Output) -> None:
    """Print the document or the page on stdout.

    Args:
        document: of plain values; its keys are a contract.
        page: the lines of the same for a person.
        output: which of them.
    """
    if output is Output.TABLE:
        typer.echo("\n".join(page))
    else:
        echo_structure(document, output)


def echo_structure(structure: Mapping[str, Any], output: Output) -> None:
    """Print plain values as YAML, or as JSON."""
    if output is Output.YAML:
        text = yaml.safe_dump(dict(structure), sort_keys=False, allow_unicode=True)
        typer.echo(text, nl=False)
    else:
        typer.echo(json.dumps(structure, indent=2, ensure_ascii=False, allow_nan=False))


def refuse(refusal: Refusal, document: Mapping[str, Any], output: Output) -> NoReturn:
    """A refusal: its document on stdout for scripts, its message on stderr, exit code 2.

    Raises:
        typer.Exit: always.
    """
    if output is not Output.TABLE:
        echo_structure(document, output)
    named = refusal.field in refusal.message
    fail(one_line(refusal.message if named else f"{refusal.field}: {refusal.message}"))


def one_line(text: str) -> str:
    """The text without line breaks or control characters (it may quote a hostile file)."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= LONGEST_MESSAGE else f"{shown[: LONGEST_MESSAGE - 3]}..."


def run(app: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; usage errors are one line too.

    Args:
        app: the commands.
        arguments: without the program's name; None: those of the process.
    """
    try:
        code = app(arguments, standalone_mode=False, prog_name="kvscale")
    except typer.TyperException as error:
        problem = one_line(error.format_message()) or "name a command"
        typer.echo(f"kvscale: {problem} (see --help)", err=True)
        return error.exit_code
    except typer.Abort:
        return 1
    except BrokenPipeError:
        return 1  # the reader has what it wanted; `| head` is no error worth a word
    except OSError as error:
        # Commands answer for the files that they read; what is left is the output.
        typer.echo(f"kvscale: the output cannot be written: {error.strerror}", err=True)
        return 1
    return code if isinstance(code, int) else 0
