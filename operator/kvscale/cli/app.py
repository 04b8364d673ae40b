"""The `kvscale` command: its sub-commands in one place."""

import typer

from kvscale import __version__
from kvscale.cli.capacity import capacity
from kvscale.cli.decide import decide
from kvscale.cli.explain import explain
from kvscale.cli.plan import plan

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Size and scale LLM inference by KV-cache memory.",
)
app.command()(plan)
app.command()(capacity)
app.command()(explain)
app.command()(decide)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
