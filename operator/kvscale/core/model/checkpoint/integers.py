"""Checkpoints in integers: AWQ, GPTQ, AutoRound and bitsandbytes.

Sources: vllm v0.32.0 model_executor/layers/quantization/{auto_awq,auto_gptq,inc}; vllm v0.19.1
quantization/bitsandbytes.py; each format's own config keys.
"""

from collections.abc import Mapping
from functools import partial

from kvscale.core.model.checkpoint.kernel_padding import halved_scale_groups
from kvscale.core.model.checkpoint.module_patterns import (
    MOST_EXPRESSIONS,
    MOST_PATTERNS,
    ModulePatterns,
)
from kvscale.core.model.checkpoint.storage import (
    MOST_GROUP,
    Quantization,
    Scheme,
    grouped,
    patterns,
)
from kvscale.core.model.fields import Fields, Refused, shown

SCALE_BITS = 16

UNQUANTIZED_BITS = 16
"""A module with as many bits is left as it is."""

BNB_BLOCK = 64
"""Parameters that share a scale in bitsandbytes' 4-bit formats; the scale is loaded as fp32."""


def _stored(bits: int, group: int) -> int:
    """One fp16 scale per group, zero points as wide as a weight."""
    return grouped(bits, SCALE_BITS, group, bits) if group > 0 else bits * 1000


def _named(config: Fields, key: str, names: dict[str, object]) -> tuple[Scheme, ...]:
    """Schemes of the modules that a config treats apart: a pattern and its own bits and group.

    Raises:
        Refused: too many, or a value that is no object.
    """
    field = config.path + key
    if len(names) > MOST_EXPRESSIONS and any(name.startswith("re:") for name in names):
        raise Refused(
            "UnsupportedQuantization",
            field,
            f"{field} holds more than {MOST_EXPRESSIONS} regular expressions",
        )
    by_storage: dict[int, list[str]] = {}
    for name, value in names.items():
        if not isinstance(value, Mapping):
            raise Refused(
                "InvalidConfig", field, f"{field} holds {shown(value)}; each entry is an object"
            )
        own = Fields({**config.data, **value}, f"{field}.")
        bits = own.integer("bits", 2, UNQUANTIZED_BITS, default=4)
        group = own.integer("group_size", -1, MOST_GROUP, default=128)
        stored = 0 if bits == UNQUANTIZED_BITS else _stored(bits, group)
        by_storage.setdefault(stored, []).append(name)
    return tuple(
        Scheme(stored, ModulePatterns(found, field)) for stored, found in by_storage.items()
    )


def _dynamic(config: Fields) -> tuple[Scheme, ...]:
    """GPTQModel's `dynamic`: "-:" leaves the modules that match out, "+:" stores them otherwise.

    Raises:
        Refused: too many rules, or a value that cannot be read.
    """
    dynamic = config.child("dynamic")
    if dynamic is None:
        return ()
    names: dict[str, object] = {}
    for rule, value in list(dynamic.data.items())[: MOST_EXPRESSIONS + 1]:
        if rule.startswith("-:"):
            names["re:" + rule[2:]] = {"bits": UNQUANTIZED_BITS}
        else:
            names["re:" + rule.removeprefix("+:")] = value
    return _named(config, "dynamic", names)


def integer_groups(config: Fields, method: str) -> Quantization:
    """AWQ, GPTQ and AutoRound: 2 to 8 bits in groups; modules may differ.

    Args:
        config: `quantization_config`.
        method: canonical name of the format.

    Raises:
        Refused: a detail without a rule here.
    """
    bits = config.integer("bits", 2, 8, default=config.integer("w_bit", 2, 8, default=4))
    default = config.integer("q_group_size", -1, MOST_GROUP, default=128)
    group = config.integer("group_size", -1, MOST_GROUP, default=default)
    schemes = _dynamic(config)
    extra = config.child("extra_config")
    if extra is not None:
        if len(extra.data) > MOST_PATTERNS:
            field = f"{config.path}extra_config"
            raise Refused("InvalidConfig", field, f"{field} has more than {MOST_PATTERNS} entries")
        names = {
            (f"re:{name}" if "*" in name or "\\" in name else name): value
            for name, value in extra.data.items()
        }
        schemes = _named(config, "extra_config", names)
    return Quantization(
        method,
        (*schemes, Scheme(_stored(bits, group))),
        patterns(config, "modules_to_not_convert"),
        head=config.flag("lm_head"),
        rounded=partial(
            halved_scale_groups,
            size=group,
            scale_bits=SCALE_BITS + bits,
            zero_bits=bits if config.flag("sym") else 0,
        )
        if group > 0
        else None,
    )


def bitsandbytes(config: Fields) -> Quantization:
    """bitsandbytes: 4 bits with an fp32 scale per 64 parameters, or 8 bits with one per row.

    Raises:
        Refused: neither or both of the two formats, or a value that cannot be read.
    """
    four = config.flag("load_in_4bit", default=config.flag("_load_in_4bit"))
    eight = config.flag("load_in_8bit", default=config.flag("_load_in_8bit"))
    if four == eight:
        field = f"{config.path}load_in_4bit"
        raise Refused(
            "InvalidConfig", field, f"one of {field} and load_in_8bit must be true, not both"
        )
    stored = grouped(4, 32, BNB_BLOCK) if four else 8_000
    ignored = patterns(config, "llm_int8_skip_modules")
    return Quantization("bitsandbytes", (Scheme(stored),), ignored)
