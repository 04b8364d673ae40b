"""`python -m catalogue`: writes the catalogue of presets from the configs in the repository."""

import argparse
import sys
from pathlib import Path
from typing import Any

from catalogue.fold import folded
from catalogue.keys import kept, names_in
from catalogue.module import Entry, written
from catalogue.sources import Source, read_sources
from kvscale.core.model.checkpoint.quantization import UNRECOGNISED
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

ROOT = Path(__file__).parents[2]
READERS = ROOT / "operator" / "kvscale" / "core" / "model"
CONFIGS = ROOT / "tests" / "data" / "hf_configs"
CATALOGUE = READERS / "catalogue.py"


def main() -> int:
    """Write the catalogue, or compare it with what would be written; 1 if they differ."""
    parser = argparse.ArgumentParser(prog="catalogue", description=__doc__)
    parser.add_argument("--configs", type=Path, default=CONFIGS, help="folder with SOURCES.csv")
    parser.add_argument("--output", type=Path, default=CATALOGUE, help="module to write")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    names = names_in(READERS)
    sources = [one for one in read_sources(options.configs) if complete(one)]
    entries = [Entry(one, shortened(one, names)) for one in sources]
    text = written(entries)
    if options.check:
        return int(options.output.read_text(encoding="utf-8") != text)
    options.output.write_text(text, encoding="utf-8")
    print(f"{len(entries)} models, {len(text) >> 10} KiB: {options.output}")
    return 0


def complete(source: Source) -> bool:
    """Whether the copy of the config says how the checkpoint is stored.

    Some copies have lost who made the quantisation. An engine takes such a file for unquantised,
    and so does `--config`; under the checkpoint's own name that would be twice its memory.
    """
    shape = _shape(source.config, source.quantization)
    return isinstance(shape, Refusal) or not any(UNRECOGNISED in note for note in shape.notes)


def shortened(source: Source, names: frozenset[str]) -> dict[str, Any]:
    """What is kept of a model: its config, and hf_quant_config.json where the config needs it.

    Raises:
        ValueError: no shape can be read of it, or the kept keys give another one.
    """
    whole = _shape(source.config, source.quantization)
    if isinstance(whole, Refusal):
        raise ValueError(f"{source.model}: {whole.message}")  # noqa: TRY004 - no mistake in a type
    both: dict[str, Any] = {"config": kept(source.config, names)}
    if source.quantization is not None and _shape(source.config, None) != whole:
        both["quantization"] = kept(source.quantization, names)

    def same(parts: dict[str, Any]) -> bool:
        return _shape(parts["config"], parts.get("quantization")) == whole

    if not same(both):
        raise ValueError(f"{source.model}: a key that its shape needs is left out: see keys.py")
    return folded(both, same)


def _shape(config: dict[str, Any], quantization: dict[str, Any] | None) -> ModelShape | Refusal:
    return read_shape(config, quantization=quantization)


if __name__ == "__main__":
    sys.exit(main())
