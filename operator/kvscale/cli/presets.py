"""`kvscale presets`: the names that --model and spec.model.preset take."""

from typing import Annotated

import typer

from kvscale.app.listing import PRESETS, preset_documents, preset_lines
from kvscale.cli.errors import fail
from kvscale.cli.output import Output, OutputOption, emit, one_line


def presets(
    word: Annotated[
        str, typer.Argument(metavar="[WORD]", help="Only names with this in them.")
    ] = "",
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """Models that are known by name, with parameters and layers by kind."""
    found = preset_documents(word)
    if word and not found:
        fail(one_line(f"no preset has {word[:40]!r} in its name: `kvscale presets` lists all"))
    emit({PRESETS: found}, preset_lines(found), output)
