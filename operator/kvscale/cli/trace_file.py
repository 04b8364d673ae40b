"""`--trace`: lengths of real requests instead of the declared percentiles."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kvscale.adapters.length_trace import read_lengths
from kvscale.cli.errors import fail
from kvscale.cli.files import read_text, shown_path
from kvscale.cli.output import one_line
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec
from kvscale.core.traffic.declared import Traffic

LARGEST_TRACE = 256 << 20

TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="CSV or JSON lines of requests (prompt and output tokens), instead of percentiles",
    ),
]


def with_trace(spec: PoolSpec, path: Path | None) -> PoolSpec:
    """The pool with the lengths of a trace; its rates stay as declared.

    Args:
        spec: of the pool.
        path: of the file; None: the pool as it is.
    """
    if path is None:
        return spec
    found = read_lengths(read_text(path, "--trace", LARGEST_TRACE))
    if isinstance(found, Refusal):
        fail(one_line(f"--trace: {shown_path(path)}: {found.message}"))
    return replace(spec, traffic=replace(spec.traffic or Traffic(), requests=found))
