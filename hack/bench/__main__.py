"""`python -m bench [name...]`: all benchmarks, or those that are named, as Markdown."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping

from bench import capacity, configs, decide, plan, reaction, scrape, sim
from bench.figures import Figure, table
from bench.machine import describe

BENCHMARKS: Mapping[str, Callable[[], list[Figure]]] = {
    "decide": decide.run,
    "scrape": scrape.run,
    "reaction": reaction.run,
    "sim": sim.run,
    "configs": configs.run,
    "capacity": capacity.run,
    "plan": plan.run,
}


def main() -> int:
    """Run them one after the other, each in an interpreter of its own; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    names = parser.parse_args().names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    if len(names) == 1:
        print(f"{describe()}\n\n## {names[0]}\n\n{table(BENCHMARKS[names[0]]())}", flush=True)
        return 0
    # A process each: the memory and the caches of one would be measured with the next.
    return max(subprocess.call([sys.executable, "-m", "bench", name]) for name in names)


if __name__ == "__main__":
    sys.exit(main())
