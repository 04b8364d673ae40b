"""Which format a checkpoint is in, and the reading of its `quantization_config`.

Sources: vllm v0.32.0 model_executor/layers/quantization/{__init__,fp8,mxfp4}.py.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from kvscale.core.model.checkpoint.compressed_tensors import compressed_tensors
from kvscale.core.model.checkpoint.integers import bitsandbytes, integer_groups
from kvscale.core.model.checkpoint.kernel_padding import mxfp4_experts
from kvscale.core.model.checkpoint.modelopt import modelopt
from kvscale.core.model.checkpoint.storage import (
    MOST_GROUP,
    NONE,
    Quantization,
    Scheme,
    grouped,
    patterns,
)
from kvscale.core.model.fields import Fields, Refused, shown

__all__ = ["METHODS", "NONE", "Quantization", "canonical_method", "read_quantization"]

_ALIASES = {
    "compressed_tensors": "compressed-tensors",
    "modelopt_fp4": "modelopt",
    "modelopt_fp8": "modelopt",
    "modelopt_mxfp8": "modelopt",
    "modelopt_mixed": "modelopt",
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "auto-round": "gptq",
    "auto_round": "gptq",
    "inc": "gptq",
    "gpt_oss_mxfp4": "mxfp4",
}


@lru_cache(maxsize=256)
def canonical_method(name: str) -> str:
    """The name of the checkpoint format; "awq_marlin" is only a kernel for "awq"."""
    return _ALIASES.get(name.lower(), name.lower())


def _fp8(config: Fields) -> Quantization:
    block = config.items("weight_block_size", 2)
    sizes = [Fields({"size": size}, config.path).integer("size", 1, MOST_GROUP) for size in block]
    area = sizes[0] * sizes[-1] if sizes else 0
    bits = 8_000 + (round(32_000 / area) if area else 0)
    ignored = patterns(config, "modules_to_not_convert", "ignored_layers")
    return Quantization("fp8", (Scheme(bits),), ignored)


def _mxfp4(config: Fields) -> Quantization:
    """Experts of 4 bits, with one 8-bit exponent per 32 parameters."""
    ignored = patterns(config, "modules_to_not_convert")
    return Quantization(
        "mxfp4", (Scheme(grouped(4, 8, 32)),), ignored, experts_only=True, rounded=mxfp4_experts
    )


_READERS: dict[str, Callable[[Fields], Quantization]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": partial(integer_groups, method="awq"),
    "gptq": partial(integer_groups, method="gptq"),
    "compressed-tensors": compressed_tensors,
    "modelopt": modelopt,
    "mxfp4": _mxfp4,
    "bitsandbytes": bitsandbytes,
}
METHODS = tuple(_READERS)
"""Checkpoint formats whose storage is known."""


def read_quantization(config: Fields | None) -> Quantization:
    """How the engine takes the checkpoint to be stored.

    Args:
        config: `quantization_config` of the config.json, or the whole hf_quant_config.json; None
            if there is neither.

    Raises:
        Refused: a format or a detail of one without a rule here.
    """
    if config is None or not config.data:
        return NONE
    method = canonical_method(config.text("quant_method"))
    nested = config.child("quantization")
    if not method:
        if not _is_modelopt(config, nested):
            return replace(NONE, note=_unrecognised(config))
        method = "modelopt"
    config = nested or config
    read = _READERS.get(method)
    if read is not None:
        return read(config)
    raise Refused(
        "UnsupportedQuantization",
        f"{config.path}quant_method",
        f"{config.path}quant_method is {shown(method)}; known are {', '.join(METHODS)}",
    )


def _is_modelopt(config: Fields, nested: Fields | None) -> bool:
    """Whether the engine recognises a file of ModelOpt that states no quant_method.

    vllm v0.32.0 transformers_utils/model_arch_config_convertor.py, _normalize_quantization_config.
    """
    producer = config.child("producer")
    named = producer is not None and producer.text("name") == "modelopt"
    return nested is not None and (named or nested.has("modelopt_quant_config"))


UNRECOGNISED = "states neither quant_method nor its producer (modelopt)"


def _unrecognised(config: Fields) -> str:
    where = config.path.rstrip(".") or "quantization_config"
    return (
        f"{where} {UNRECOGNISED}, so the engine takes the weights as unquantised: add quant_method "
        "if the file is a shortened copy"
    )
