"""The `kvscale` command: its sub-commands in one place, each loaded when it is asked for.

A command line runs one command. Loading them all would take three times as long as `plan` itself.
"""

from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

COMMANDS: dict[str, str] = {
    name: f"kvscale.cli.{name}"
    for name in ("plan", "compare", "capacity", "explain", "decide", "version")
}
"""By name: the module that has a function of that name. Whoever wires the operator adds its own."""


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


@app.callback()
def _root() -> None:
    """Size and scale LLM inference by KV-cache memory."""
