"""The command's own: what is listed, and that a command loads no more than it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvscale.__main__ import operator
from kvscale.cli.app import COMMANDS, app
from kvscale.cli.output import run

ROOT = Path(__file__).parents[2]
LOADED = """
import sys
from kvscale.cli.output import run
import kvscale.__main__ as main
run(main.app, sys.argv[1:])
print("loaded:", " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
print("own:", " ".join(sorted(name for name in sys.modules if name.startswith("kvscale."))))
"""


def modules(*arguments: str) -> tuple[set[str], set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, own = done.stdout.splitlines()[-2:]
    return set(loaded.split()), set(own.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "-f", "examples/llama-3.1-8b.yaml"),
        ("compare", "-f", "examples/llama-3.1-8b.yaml", "--gpu", "L4"),
    ],
)
def test_a_plan_loads_no_client_no_operator_and_no_pictures(arguments: tuple[str, ...]) -> None:
    loaded, own = modules(*arguments)
    assert not loaded & {
        "kubernetes",
        "kopf",
        "aiohttp",
        "matplotlib",
        "prometheus_client",
    }
    assert not own & {"kvscale.wiring", "kvscale.handlers", "kvscale.api.status", "kvscale.api.crd"}


def test_the_version_loads_no_command() -> None:
    _, own = modules("version")
    assert not own & {f"kvscale.cli.{name}" for name in ("plan", "compare", "capacity", "explain")}


def test_every_command_is_listed_and_loads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["--help"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert name in shown
        assert run(app, [name, "--help"]) == 0
        assert f"kvscale {name}" in capsys.readouterr().out
    assert "operator" in COMMANDS
    assert operator.__doc__


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, told in (("plans", "did you mean plan"), ("x" * 5000, "there are plan, compare")):
        assert run(app, [typed]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert len(err) < 300
        assert told in err


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["--version"]) == 0
    by_option = capsys.readouterr().out
    assert run(app, ["version"]) == 0
    assert capsys.readouterr().out == by_option
