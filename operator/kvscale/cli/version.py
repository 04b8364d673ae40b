"""`kvscale version`."""

import typer

from kvscale import __version__


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
