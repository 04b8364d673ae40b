"""`kvscale decide`: the decision of a recorded round, on any machine."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from kvscale.api.record import dump_decisions
from kvscale.app.record import decode, replay
from kvscale.cli.errors import fail


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
        record = decode(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except ValueError as error:
        fail(f"{file}: {error}")
    decisions = replay(record)
    typer.echo(orjson.dumps(orjson.loads(dump_decisions(decisions)), option=orjson.OPT_INDENT_2))
    if check and decisions != record.decisions:
        typer.echo("the decisions differ from the record", err=True)
        raise typer.Exit(1)
