"""What it costs to ask every engine for its metrics, without a Prometheus in between."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from bench.example_engine import ON_L4, engine_settings
from bench.figures import Figure, seconds, spread
from bench.metrics_pages import Load, MetricsPages
from kvscale.adapters.clock import SystemClock
from kvscale.adapters.scrape import ScrapeSource
from kvscale.adapters.sources import ScrapeSettings
from kvscale.core.values import Known
from kvscale.ports import MetricsTarget

PODS = 500
ROUNDS = 5
INTERVAL_SECONDS = 5.0
START_SECONDS = 60.0


def run() -> list[Figure]:
    """CPU of this process alone; the engines answer from another one."""
    with _pages() as url:
        spent = asyncio.run(_rounds(url))
    each = min(spent) / PODS
    return [
        Figure(
            "a pod scraped",
            f"**{seconds(each)}**",
            f"CPU, best of {ROUNDS} rounds over {PODS} pods: connection, answer, parsing",
        ),
        Figure("a round", spread(spent), "CPU"),
        Figure(
            f"pods that keep one core busy at {INTERVAL_SECONDS:g} s",
            f"{INTERVAL_SECONDS / each:,.0f}",
            "an upper bound; a Prometheus source asks a fixed number of queries instead",
        ),
    ]


async def _rounds(url: str) -> list[float]:
    source = ScrapeSource(
        ScrapeSettings(f"{url}/{{namespace}}/{{pod}}{{path}}", deadline_seconds=60.0),
        SystemClock(),
    )
    targets = [
        MetricsTarget("team", f"llama-5d9f7c-{number:05}", f"uid-{number}", "", 8000, "/metrics")
        for number in range(PODS)
    ]
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time()
        answers = await source.collect(targets)
        spent.append(time.process_time() - started)
        missing = sum(not isinstance(answer, Known) for answer in answers.values())
        if missing:
            raise RuntimeError(f"{missing} of {PODS} pods were not read")
    await source.close()
    return spent


@contextmanager
def _pages() -> Iterator[str]:
    """The address of a server in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        if not ours.poll(START_SECONDS):
            raise RuntimeError("the metrics server did not start")
        yield ours.recv()
    finally:
        ours.close()
        server.terminate()
        server.join()


def _serve(pipe: Connection) -> None:
    asyncio.run(_serve_for_ever(pipe))


async def _serve_for_ever(pipe: Connection) -> None:
    settings = engine_settings("NVIDIA-L4", ON_L4)
    idle = Load(settings.usable_blocks // 2, running=20, waiting=0)
    async with MetricsPages(settings, idle) as pages:
        pipe.send(pages.url)
        await asyncio.Event().wait()
