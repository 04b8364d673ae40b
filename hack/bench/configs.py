"""How fast configs are read: every public one of the repository, and the slowest hostile ones."""

import gc
import json
import time
from pathlib import Path
from statistics import median

from bench.figures import Figure, percentile, seconds
from bench.hostile_configs import FOLDER, Hostile, hostile_configs, slow_configs
from kvscale.core.model.catalogue import CONFIGS
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset

ROUNDS = 5
HOSTILE = 10_000
SEED = 0


def run() -> list[Figure]:
    """CPU time of `read_shape`: of real configs, of hostile ones, and of the catalogue."""
    real = [_real(path) for path in sorted(FOLDER.glob("*/config.json"))]
    spent = [_best(one) for one in real]
    slow = sorted(((_best(one), one.what) for one in slow_configs()), reverse=True)
    hostile = [_once(one) for one in hostile_configs(HOSTILE, SEED)]
    return [
        Figure(
            "a public config.json, decoded before",
            f"**{len(spent) / sum(spent):,.0f} per CPU second**",
            f"{len(spent)} models, best of {ROUNDS}; median {seconds(median(spent))}, the slowest "
            f"{seconds(max(spent))}",
        ),
        Figure(
            "the slowest hostile config",
            f"**{seconds(slow[0][0])}**",
            f"CPU, best of {ROUNDS}; of {len(slow)} built to be slow: {slow[0][1]}; then "
            + "; ".join(f"{what} {seconds(took)}" for took, what in slow[1:4]),
        ),
        Figure(
            "a hostile config at random",
            f"**{seconds(median(hostile))}** (p99 {seconds(percentile(hostile, 99))}, most "
            f"{seconds(max(hostile))})",
            f"CPU, once each; {HOSTILE:,}, seed {SEED}",
        ),
        Figure(
            "a preset, from its name",
            f"**{seconds(_presets() / len(CONFIGS))}**",
            f"CPU; {len(CONFIGS)} models, JSON decoded, nothing cached",
        ),
    ]


def _real(path: Path) -> Hostile:
    beside = path.with_name("hf_quant_config.json")
    return Hostile(
        path.parent.name,
        json.loads(path.read_text(encoding="utf-8")),
        json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else None,
    )


def _best(one: Hostile) -> float:
    return min(_once(one) for _ in range(ROUNDS))


def _once(one: Hostile) -> float:
    gc.collect(0)  # what was made of the last one is not this one's
    started = time.process_time()
    read_shape(one.config, one.what, one.quantization)
    return time.process_time() - started


def _presets() -> float:
    started = time.process_time()
    for name in CONFIGS:
        preset.__wrapped__(name)
    return time.process_time() - started
