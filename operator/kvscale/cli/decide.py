"""`kvscale decide`: the decision of a recorded round, on any machine."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from kvscale.api.record import dump_decisions
from kvscale.app.record import decode, replay
from kvscale.cli.errors import fail
from kvscale.cli.files import read_bytes, shown_path
from kvscale.cli.output import one_line

LARGEST = 256 << 20
"""Bytes of a record: the largest cluster's has a fraction of them."""


def decide(
    file: Annotated[
        Path, typer.Argument(metavar="SNAPSHOT.json", help="A file that --record has written.")
    ],
    *,
    check: Annotated[
        bool, typer.Option(help="Exit 1 unless the decisions are those of the record.")
    ] = False,
) -> None:
    """Decide again on a recorded snapshot and print the decisions as JSON."""
    try:
        record = decode(read_bytes(file, "SNAPSHOT.json", LARGEST))
        decisions = replay(record)
        text = orjson.dumps(orjson.loads(dump_decisions(decisions)), option=orjson.OPT_INDENT_2)
    except (ValueError, OverflowError) as error:
        fail(one_line(f"SNAPSHOT.json: {shown_path(file)}: {error}"))
    typer.echo(text)
    if check and decisions != record.decisions:
        typer.echo(f"the decisions differ from the record{record.other_version}", err=True)
        raise typer.Exit(1)
