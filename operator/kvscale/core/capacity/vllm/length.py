"""The longest sequence that vLLM serves: what is asked for, within what the model was made for."""

from kvscale.core.engines.config import AUTO_LENGTH, EngineConfig
from kvscale.core.engines.vllm.rules import Rules
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import ModelShape

MOST_TOKENS = 1 << 31
YARN_IS_COUNTED = (0, 30, 0)
"""From here on the positions that a config states count YaRN's factor (config/model.py)."""
LONG_ROPE_IS_SPARED = (0, 11, 1)
"""From here on a LongRoPE model is served at its original length unless asked (config/model.py)."""


def model_length(rules: Rules, shape: ModelShape, engine: EngineConfig) -> int:
    """The length in tokens; an upper bound where the engine shortens it to what fits.

    Source: vllm v0.32.0 config/model.py (`_get_and_verify_max_len`).

    Raises:
        Refused: the model does not say how long a sequence may be, or what is asked is longer.
    """
    longest = shape.max_position_embeddings
    if rules.version < YARN_IS_COUNTED and shape.positions_by_yarn is not None:
        longest = shape.positions_by_yarn
    wanted = engine.max_model_len
    if wanted is None or wanted == AUTO_LENGTH:
        return _unasked(rules, shape, longest)
    if not 1 <= wanted <= MOST_TOKENS:
        raise Refused(
            "InvalidMaxModelLen",
            "--max-model-len",
            f"--max-model-len is {wanted}; it must be from 1 to {MOST_TOKENS}, or -1 for what fits",
        )
    if longest is not None and wanted > longest:
        raise Refused(
            "MaxModelLenTooLong",
            "--max-model-len",
            f"--max-model-len is {wanted}; the model was made for {longest} tokens. Lower it, or "
            "scale the positions by rope_scaling in the config.json",
        )
    return wanted


def _unasked(rules: Rules, shape: ModelShape, longest: int | None) -> int:
    spared = shape.positions_unasked
    if spared is not None and (longest is None or rules.version >= LONG_ROPE_IS_SPARED):
        return spared
    if longest is not None:
        return longest
    raise Refused(
        "MaxModelLenUnknown",
        "--max-model-len",
        "the model does not say how long a sequence may be; set --max-model-len",
    )
