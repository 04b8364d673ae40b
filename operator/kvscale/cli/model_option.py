"""`--config` and `--model`: the model of a command, from its config.json or by a known name."""

from pathlib import Path

from kvscale.cli.errors import fail
from kvscale.cli.files import exists, in_directory, read_json
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

CONFIG_FILE = "config.json"
QUANTIZATION_FILE = "hf_quant_config.json"


def model_shape(config: Path | None, model: str | None) -> ModelShape | Refusal:
    """The model, or why it cannot be read; neither option or both end the command.

    Args:
        config: a config.json, or the directory that holds it.
        model: a preset's name.
    """
    if config is None and model is None:
        fail("--config or --model is needed: name the model's config.json or a known model")
    if config is not None and model is not None:
        fail("--config and --model exclude each other: leave one out")
    if config is None:
        found = preset(model or "")
        if isinstance(found, Refusal):
            said, _, close = found.message.partition("; ")
            asked = (
                f"{close.partition('?')[0]}? Otherwise"
                if "?" in close
                else "`kvscale presets` lists them, or"
            )
            mend = f"{asked} give its config.json by --config"
            return Refusal(found.reason, "--model", f"--model: {said}; {mend}")
        return found
    file = in_directory(config, CONFIG_FILE)
    beside = file.parent / QUANTIZATION_FILE
    quantization = read_json(beside, "--config") if exists(beside) else None
    config_json = read_json(file, "--config")
    named = file.resolve()  # it can be read, so this leads somewhere
    name = named.parent.name if named.name == CONFIG_FILE else named.stem
    return read_shape(config_json, name, quantization)
