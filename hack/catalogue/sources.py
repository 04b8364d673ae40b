"""The configs in the repository, each with where it is from and the names of its siblings."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = "SOURCES.csv"


@dataclass(frozen=True, slots=True)
class Source:
    """A model whose config is in the repository.

    Attributes:
        model: OWNER/NAME.
        source: where the config is from, in words.
        aliases: names of siblings with the same shape.
        config: its config.json.
        quantization: its hf_quant_config.json, where it has one.
    """

    model: str
    source: str
    aliases: tuple[str, ...]
    config: dict[str, Any]
    quantization: dict[str, Any] | None


def read_sources(folder: Path) -> Iterator[Source]:
    """The models of SOURCES.csv, in its order.

    Args:
        folder: with SOURCES.csv (model, source, aliases apart by blanks) and a folder
            OWNER--NAME for each model.

    Raises:
        ValueError: a folder without a line, or a name twice.
        OSError: a line without a folder.
    """
    seen: set[str] = set()
    models: set[str] = set()
    with (folder / LIST).open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            model, aliases = line["model"], tuple(line["aliases"].split())
            for name in (model, *aliases):
                if name.lower() in seen:
                    raise ValueError(f"{LIST} names {name} twice: leave one out")
                seen.add(name.lower())
            models.add(model)
            own = folder / model.replace("/", "--", 1)
            beside = own / "hf_quant_config.json"
            yield Source(
                model,
                line["source"],
                aliases,
                json.loads((own / "config.json").read_text(encoding="utf-8")),
                json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else None,
            )
    found = {path.parent.name.replace("--", "/", 1) for path in folder.glob("*/config.json")}
    if found - models:
        raise ValueError(f"{LIST} has no line for {', '.join(sorted(found - models))}: add them")
