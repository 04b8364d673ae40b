"""Checkpoints of NVIDIA ModelOpt.

Source: vllm v0.32.0 model_executor/layers/quantization/modelopt.py.
"""

from collections.abc import Mapping

from kvscale.core.model.checkpoint.compressed_tensors import kv_cache_dtype
from kvscale.core.model.checkpoint.module_patterns import MOST_PATTERNS, ModulePatterns
from kvscale.core.model.checkpoint.storage import Quantization, Scheme, patterns
from kvscale.core.model.fields import Fields, Refused, shown

_MODELOPT = {
    "FP8": 8_000,
    "FP8_PER_CHANNEL_PER_TOKEN": 8_000,
    "FP8_PB_WO": 8_000 + 2,  # one fp32 scale per 128 x 128
    "NVFP4": 4_500,  # one fp8 scale per 16
    "NVFP4_AWQ": 4_500,
    "W4A16_NVFP4": 4_500,
    "FP8_BLOCK_SCALES": 8_000 + 2,
    "W4A8_AWQ": 4_125,  # one fp16 scale per 128
    "MXFP8": 8_250,  # one 8-bit exponent per 32
}
"""`quant_algo` of NVIDIA ModelOpt."""

MOST_ALGORITHMS = 16
MOST_LISTED = 150_000
"""Modules that MIXED_PRECISION may list: each expert by itself, of which the first counts."""

_EXPERTS = ".experts."


def _modelopt_bits(algorithm: str, field: str) -> int:
    bits = _MODELOPT.get(algorithm.upper())
    if bits is None:
        raise Refused(
            "UnsupportedQuantization",
            field,
            f"{field} is {shown(algorithm)}; known are {', '.join(_MODELOPT)}, MIXED_PRECISION",
        )
    return bits


def _by_layer(config: Fields) -> tuple[Scheme, ...]:
    """The schemes of MIXED_PRECISION: an algorithm for each module that is quantised."""
    listed = config.child("quantized_layers")
    if listed is None or len(listed.data) > MOST_LISTED:
        raise Refused(
            "InvalidConfig",
            f"{config.path}quantized_layers",
            f"{config.path}quantized_layers must be an object of at most {MOST_LISTED} modules",
        )
    modules: dict[str, list[str]] = {}
    for module, how in listed.data.items():
        at = module.find(_EXPERTS)
        if at >= 0 and not module.startswith("0", at + len(_EXPERTS)):
            continue  # every expert is stored as the first one
        algorithm = how.get("quant_algo") if isinstance(how, Mapping) else None
        if not isinstance(algorithm, str):
            field = f"{config.path}quantized_layers.quant_algo"
            raise Refused("InvalidConfig", field, f"{field} is {shown(algorithm)}; it must be text")
        modules.setdefault(algorithm, []).append(module)
    field = f"{config.path}quantized_layers"
    if sum(map(len, modules.values())) > MOST_PATTERNS:
        raise Refused("InvalidConfig", field, f"{field} names more than {MOST_PATTERNS} modules")
    if len(modules) > MOST_ALGORITHMS:
        raise Refused("InvalidConfig", field, f"{field} names more than {MOST_ALGORITHMS} formats")
    return tuple(
        Scheme(_modelopt_bits(algorithm, field), ModulePatterns(named, field))
        for algorithm, named in modules.items()
    )


def modelopt(config: Fields) -> Quantization:
    """ModelOpt: one algorithm for every linear module, the head included, or one for each.

    Args:
        config: `quantization_config`, or the `quantization` part of hf_quant_config.json.

    Raises:
        Refused: an algorithm without a rule here.
    """
    algorithm = config.text("quant_algo").upper()
    if algorithm == "MIXED_PRECISION":
        schemes = _by_layer(config)
    else:
        schemes = (Scheme(_modelopt_bits(algorithm, f"{config.path}quant_algo")),)
    kv_cache = config.data.get("kv_cache_quant_algo", config.data.get("kv_cache_scheme"))
    return Quantization(
        "modelopt", schemes, patterns(config, "ignore", "exclude_modules"),
        head=True, kv_cache=kv_cache_dtype(kv_cache),
    )  # fmt: skip
