"""One tick over a large cluster: time and memory, of the decision alone and of the whole."""

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.figures import Figure, mebibytes, seconds, spread
from bench.large_cluster import START, Size, build
from bench.machine import forget_caches, peak_resident_bytes, resident_bytes
from bench.tick_world import TickWorld
from kvscale.app.record import Record, decode, encode
from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import State
from kvscale.ports import ClusterView
from kvscale.wiring import COLLECT_AFTER

STEADY_TICKS = 24
"""Two minutes: every status is compared (once a minute) twice."""
REPEATS = 10


def run(size: Size | None = None) -> list[Figure]:
    """The figures; every one of this process alone, without a network."""
    gc.set_threshold(*COLLECT_AFTER)  # as the operator does
    size = size or Size()
    empty = resident_bytes()
    listed = build(size)
    started = time.process_time()
    view = listed.view()
    projection = time.process_time() - started
    objects = len(listed.pods) + len(listed.nodes) + len(listed.pools) + len(listed.workloads)
    text_bytes = sum(map(len, listed.pods))
    kv_blocks = listed.kv_blocks
    del listed
    gc.collect()
    caches = resident_bytes() - empty
    figures = [
        Figure(
            "caches filled",
            f"{seconds(projection / objects)} an object",
            f"JSON to records, {objects:,} objects; a pod's JSON has "
            f"{text_bytes // size.pods:,} bytes here",
        ),
        Figure("memory of the caches", mebibytes(caches), "resident"),
    ]
    world = TickWorld.of(view, kv_blocks, START)
    figures += asyncio.run(_whole(world))
    figures.insert(0, _scale(size, world, view))
    resident, peak = resident_bytes(), peak_resident_bytes()
    figures += [
        Figure(
            "memory of the process",
            mebibytes(resident),
            f"resident after these ticks, every module of the operator loaded; {mebibytes(peak)} "
            "at its highest",
        ),
        Figure("memory of one tick", mebibytes(_tick_peak(world)), "highest, by tracemalloc"),
    ]
    return figures + _alone(world.last)


def _scale(size: Size, world: TickWorld, view: ClusterView) -> Figure:
    running = sum(pod.ready for pod in view.pods)
    ticks = STEADY_TICKS + 2
    return Figure(
        "scale",
        f"{size.pools:,} pools, {size.pods:,} pods, {size.nodes:,} nodes",
        f"{running:,} pods run, the others found no node; {world.cluster.scales} writes of /scale "
        f"and {world.cluster.statuses:,} of status in the first {ticks} ticks",
    )


async def _whole(world: TickWorld) -> list[Figure]:
    first = await world.tick()
    steady = [await world.tick() for _ in range(STEADY_TICKS)]
    world.cluster.relabel_node()
    relabelled = await world.tick()
    return [
        Figure(
            "first tick",
            seconds(first.whole),
            f"CPU: observe {seconds(first.observe)}, decide {seconds(first.decide)}, act "
            f"{seconds(first.act)}; nothing is cached, every status is written",
        ),
        Figure(
            "steady tick",
            spread([tick.whole for tick in steady]),
            f"CPU, median of {STEADY_TICKS}: observe {spread([t.observe for t in steady])}, "
            f"decide {spread([t.decide for t in steady])}, act {spread([t.act for t in steady])}",
        ),
        Figure(
            "tick after a node's labels changed",
            seconds(relabelled.whole),
            f"CPU: observe {seconds(relabelled.observe)}: every pool is resolved anew",
        ),
    ]


def _alone(last: Record | None) -> list[Figure]:
    """`core.decide` on the recorded round: cold, and as it is every five seconds."""
    if last is None:
        raise RuntimeError("no round was decided")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "round.json"
        written = _cpu(lambda: file.write_bytes(encode(last)))
        size = file.stat().st_size
        started = time.process_time()
        record = decode(file.read_bytes())
        read = time.process_time() - started
    if record != last:
        raise RuntimeError("the record was not read back as it was written")
    forget_caches()
    cold = _cpu(lambda: decide(record.snapshot, State(), record.now))
    steady = [
        _cpu(lambda: decide(record.snapshot, record.before, record.now)) for _ in range(REPEATS)
    ]
    pools = len(record.snapshot.pools)
    return [
        Figure(
            "record of a tick",
            mebibytes(size),
            f"written in {seconds(written)}, read in {seconds(read)}, only with --record",
        ),
        Figure("`decide` alone, first", seconds(cold), f"CPU; {seconds(cold / pools)} a pool"),
        Figure(
            "`decide` alone, steady",
            spread(steady),
            f"CPU, new samples in every engine; {seconds(median(steady) / pools)} a pool",
        ),
    ]


def _cpu(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def _tick_peak(world: TickWorld) -> int:
    """The most that a tick allocates above what was there before it."""
    world.pass_time()
    tracemalloc.start()
    try:
        asyncio.run(world.loop.tick())
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
