"""`--plot FILE`: pictures, drawn by matplotlib where it is installed."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from kvscale.cli.errors import fail
from kvscale.cli.files import shown_path
from kvscale.cli.output import one_line

FORMATS = (".svg", ".png")


def check_plot(path: Path | None) -> None:
    """End the command when a picture is asked for that cannot be drawn; before any work."""
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        fail(one_line(f"--plot: {shown_path(path)} is no picture: name a file .svg or .png"))
    if not path.parent.is_dir():
        fail(one_line(f"--plot: there is no directory {shown_path(path.parent)}: make it first"))
    if find_spec("matplotlib") is None:
        fail("--plot needs matplotlib: install kvscale[plot], or leave --plot out")


def write_plot(path: Path | None, figure: str, subject: Any) -> None:
    """Draw into the file; nothing without one.

    Args:
        path: of `--plot`.
        figure: function of `cli.plots` that draws.
        subject: what it draws.
    """
    if path is None:
        return
    # matplotlib takes a second to load, and only pictures need it.
    plots = import_module("kvscale.cli.plots")
    drawn = getattr(plots, figure)(subject)
    try:
        plots.save(drawn, path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        fail(one_line(f"--plot: {shown_path(path)} cannot be written: {why}"))
    typer.echo(f"picture: {shown_path(path)}", err=True)
