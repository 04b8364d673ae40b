"""The `kvscale` command: its sub-commands in one place, each loaded when it is asked for.

A command line runs one command. Loading them all would take three times as long as `plan` itself.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from kvscale import __version__

COMMANDS: dict[str, str] = {
    name: f"kvscale.cli.{name}"
    for name in (
        "plan",
        "compare",
        "capacity",
        "devices",
        "presets",
        "explain",
        "decide",
        "version",
    )
}
"""By name: the module that has a function of that name. Whoever wires the operator adds its own."""

LONGEST, PROPOSALS = 40, 3
"""Characters of a mistyped name that are looked at; close names that are told."""


class Commands(typer.core.TyperGroup):
    """Commands that are imported one at a time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's
        """Names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the base class's
        """The command of that name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            single = typer.Typer(**SETTINGS)
            single.command(cmd_name)(getattr(import_module(COMMANDS[cmd_name]), cmd_name))
            self.commands[cmd_name] = typer.main.get_command(single)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word; a mistyped one is answered with close names."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = get_close_matches(name[:LONGEST], COMMANDS, n=PROPOSALS)
            hint = (
                f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(COMMANDS)}"
            )
            shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
            ctx.fail(f"no command is called {shown!r}: {hint}")
        return super().resolve_command(ctx, args)


SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Size and scale LLM inference by KV-cache memory.",
    **SETTINGS,
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - what the option calls
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Size and scale LLM inference by KV-cache memory."""
