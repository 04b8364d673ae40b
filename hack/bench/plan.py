"""How long `kvscale plan` takes, from the start of the process to its end."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.figures import Figure, seconds, spread

EXAMPLES = Path(__file__).parents[2] / "examples"
POOL = EXAMPLES / "llama-3.1-8b.yaml"
SERVER = EXAMPLES / "vllm-llama-3.1-8b-l4.yaml"
RUNS = 9
LIBRARIES = (
    "import typer.main, yaml; from pydantic import create_model; create_model('M', n=(int, 1))"
)
"""What the command is written in, loaded, and one model of its API built."""


def run() -> list[Figure]:
    """Wall and CPU time of `plan`, and of an interpreter that does nothing."""
    command = ["-m", "kvscale", "plan", "-f", str(POOL), "--manifest", str(SERVER)]
    with tempfile.TemporaryDirectory() as compiled:
        # An installed package is compiled once; a checkout may be forbidden to keep the result.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        first, _ = _one(command, environment)
        planned = [_one(command, environment) for _ in range(RUNS)]
        nothing = [_one(["-c", ""], environment) for _ in range(RUNS)]
        libraries = [_one(["-c", LIBRARIES], environment) for _ in range(RUNS)]
    return [
        Figure(
            "`kvscale plan`",
            f"**{spread([wall for wall, _ in planned])}**",
            f"wall, median of {RUNS}; CPU {seconds(median([cpu for _, cpu in planned]))}; the very "
            f"first, which compiles every module, {seconds(first)}",
        ),
        Figure(
            "its libraries alone: typer, pydantic with one model, yaml",
            spread([wall for wall, _ in libraries]),
            f"wall, of this the above; CPU {seconds(median([cpu for _, cpu in libraries]))}",
        ),
        Figure(
            "an empty Python process",
            spread([wall for wall, _ in nothing]),
            f"wall, of this the above; CPU {seconds(median([cpu for _, cpu in nothing]))}",
        ),
    ]


def _one(arguments: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of a Python process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu
