"""How long a sequence a model takes: stated positions, and the scaling of their rotation.

Sources: vllm v0.32.0 config/model.py (`_get_and_verify_max_len`),
transformers_utils/model_arch_config_convertor.py (`derive_max_model_len_and_key`); sglang v0.5.23
utils/hf_transformers_utils.py (`get_context_length`).
"""

from dataclasses import dataclass

from kvscale.core.model.fields import Fields

MOST_POSITIONS = 1 << 31
MOST_ROPE_FACTOR = 1 << 20

UNSTATED = 2048
"""Tokens that vLLM and SGLang serve of a model that states no length."""

_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
"""Keys that state a length; the shortest counts."""

_OWN_LENGTH = ("su", "longrope", "llama3", "default", "proportional")
"""Rope types whose table has as many rows as the config states positions."""

_YARN = ("yarn", "deepseek_yarn")
"""Rope types whose stated positions count the scaling, as engines have it by now."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Lengths of a sequence in tokens; None where the config states none.

    Attributes:
        longest: that the model was made for.
        unasked: that vLLM serves when no length is asked for, where that is another: the length
            before a LongRoPE, so that short sequences stay good; 2048 where nothing is stated.
        longest_by_yarn: that vLLM took before 0.30: YaRN's original positions times its factor.
    """

    longest: int | None
    unasked: int | None = None
    longest_by_yarn: int | None = None


def rope_fields(text: Fields) -> Fields | None:
    """The rope scaling of the config, under its old name or its new one."""
    return text.child("rope_scaling") or text.child("rope_parameters")


def rope_type(rope: Fields | None) -> str:
    """The kind of scaling; "" for none."""
    return "" if rope is None else rope.text("rope_type", rope.text("type"))


def stated_positions(text: Fields) -> int | None:
    """Positions that a config states; None if it states none.

    Command-R states 8192 of them and serves what its `model_max_length` says.
    """
    if text.has("model_max_length"):
        return text.integer("model_max_length", 1, MOST_POSITIONS)
    stated = [text.integer(key, 1, MOST_POSITIONS) for key in _KEYS if text.has(key)]
    return min(stated, default=None)


def stretched(stated: int, rope: Fields | None) -> int:
    """Positions after the scaling of one set of parameters, as its rotary table has them."""
    kind = rope_type(rope)
    if rope is None or kind in _OWN_LENGTH:
        return stated
    if kind == "yarn":
        stated = rope.integer("original_max_position_embeddings", 1, MOST_POSITIONS, stated)
    return max(1, int(stated * rope.number("factor", 1e-6, MOST_ROPE_FACTOR, 1.0)))


def read_positions(text: Fields) -> Positions:
    """How long a sequence the model takes.

    Args:
        text: the text model's config.

    Raises:
        Refused: a length or a factor is none.
    """
    stated = stated_positions(text)
    if stated is None:
        return Positions(None, UNSTATED)
    rope = rope_fields(text)
    kind = rope_type(rope)
    if kind == "longrope":
        original = "original_max_position_embeddings"
        return Positions(stated, text.integer(original, 1, MOST_POSITIONS, default=stated))
    if kind in _YARN:
        return Positions(stated, None, stretched(stated, rope) if kind == "yarn" else None)
    # Gemma-3's positions are stated after the scaling.
    made = "gemma3" in text.text("model_type")
    return Positions(stated if made else stretched(stated, rope))
