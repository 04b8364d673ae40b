"""Errors of the command line: one line on stderr, exit code 2, no traceback."""

from typing import NoReturn

import typer

USAGE = 2


def fail(message: str) -> NoReturn:
    """Say what is wrong and how to mend it, and end.

    Raises:
        typer.Exit: always, with code 2.
    """
    typer.echo(f"kvscale: {' '.join(message.split())}", err=True)
    raise typer.Exit(USAGE)
