"""How a checkpoint stores its weights: bits per parameter, module by module.

Every scheme counts its scales: a group of g parameters shares a scale of s bits (and, where it is
asymmetric, a zero point), hence bits + (s + zero) / g per parameter. Scales per tensor or per
channel are below 0.1 % and left out.

Sources: vllm v0.32.0 model_executor/layers/quantization/{fp8,awq,gptq,modelopt,mxfp4}.py and
compressed_tensors/compressed_tensors.py; each format's own config keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused, shown
from kvscale.core.model.module_patterns import MOST_PATTERNS, ModulePatterns

METHODS = ("fp8", "fbgemm_fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4")
"""Checkpoint formats whose storage is known."""

_ALIASES = {
    "compressed_tensors": "compressed-tensors",
    "modelopt_fp4": "modelopt",
    "modelopt_fp8": "modelopt",
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "gpt_oss_mxfp4": "mxfp4",
}

_MODELOPT = {
    "FP8": 8_000,
    "FP8_PER_CHANNEL_PER_TOKEN": 8_000,
    "FP8_PB_WO": 8_000 + 2,  # one fp32 scale per 128 x 128
    "NVFP4": 4_500,  # one fp8 scale per 16
    "NVFP4_AWQ": 4_500,
    "W4A16_NVFP4": 4_500,
    "MXFP8": 8_250,  # one 8-bit exponent per 32
}
"""`quant_algo` of NVIDIA ModelOpt."""

MOST_GROUP = 1 << 20


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to store the parameters of some modules.

    Attributes:
        bits_milli: thousandths of a bit per parameter, scales included.
        modules: the modules stored so; None: all linear ones.
    """

    bits_milli: int
    modules: ModulePatterns | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """What a quantised checkpoint stores how.

    Attributes:
        method: canonical name of the format; "" if nothing is quantised.
        schemes: the first whose modules match counts.
        ignored: modules that are left as they are.
        head: whether the output head is quantised too.
        experts_only: only the experts of a mixture are quantised (mxfp4).
        kv_cache: KV cache dtype that the checkpoint asks for under `auto`; "" if none.
    """

    method: str = ""
    schemes: tuple[Scheme, ...] = ()
    ignored: ModulePatterns | None = None
    head: bool = False
    experts_only: bool = False
    kv_cache: str = ""

    def bits(self, module: str, dtype: str) -> int:
        """Thousandths of a bit per parameter of a linear module.

        Args:
            module: its full name ("model.layers.3.mlp.down_proj").
            dtype: format of what is not quantised.
        """
        plain = BITS[dtype]
        if not self.schemes or (module == "lm_head" and not self.head):
            return plain
        if self.experts_only and ".experts." not in module:
            return plain
        if self.ignored is not None and module in self.ignored:
            return plain
        for scheme in self.schemes:
            if scheme.modules is None or module in scheme.modules:
                return scheme.bits_milli
        return plain


NONE = Quantization()
"""A checkpoint in bf16, fp16 or fp32."""


def canonical_method(name: str) -> str:
    """The name of the checkpoint format; "awq_marlin" is only a kernel for "awq"."""
    return _ALIASES.get(name.lower(), name.lower())


def _grouped(bits: int, scale_bits: int, group: int, zero_bits: int = 0) -> int:
    return bits * 1000 + (scale_bits + zero_bits) * 1000 // group


def _patterns(config: Fields, *keys: str) -> ModulePatterns:
    """The ignore list under the first of these keys that is there."""
    key = next((key for key in keys if config.has(key)), keys[0])
    return ModulePatterns(config.items(key, MOST_PATTERNS), config.path + key)


def _fp8(config: Fields) -> Quantization:
    block = config.items("weight_block_size", 2)
    sizes = [Fields({"size": size}, config.path).integer("size", 1, MOST_GROUP) for size in block]
    area = sizes[0] * sizes[-1] if sizes else 0
    bits = 8_000 + (round(32_000 / area) if area else 0)
    ignored = _patterns(config, "modules_to_not_convert", "ignored_layers")
    return Quantization("fp8", (Scheme(bits),), ignored)


def _integer_groups(config: Fields, method: str) -> Quantization:
    """AWQ and GPTQ: 2 to 8 bits, one fp16 scale per group, zero points as wide as a weight."""
    bits = config.integer("bits", 2, 8, default=config.integer("w_bit", 2, 8, default=4))
    group = config.integer("group_size", -1, MOST_GROUP, default=128)
    if config.data.get("dynamic"):
        raise Refused(
            "UnsupportedQuantization",
            f"{config.path}dynamic",
            f"{config.path}dynamic (bits that differ by module) has no rule here; "
            "declare the size by model.shape.parametersMillions and weightDtype",
        )
    stored = _grouped(bits, 16, group, bits) if group > 0 else bits * 1000
    ignored = _patterns(config, "modules_to_not_convert")
    return Quantization(method, (Scheme(stored),), ignored, head=config.flag("lm_head"))


def _compressed(config: Fields) -> Quantization:
    groups = config.child("config_groups")
    if groups is None or not 0 < len(groups.data) <= MOST_GROUP:
        raise Refused(
            "InvalidConfig",
            f"{config.path}config_groups",
            f"{config.path}config_groups is missing or empty; it must say how weights are stored",
        )
    schemes = []
    for name in list(groups.data)[:100]:
        group = groups.child(str(name))
        weights = group.child("weights") if group is not None else None
        if group is None or weights is None:
            continue
        bits = weights.integer("num_bits", 2, 16)
        size = weights.integer("group_size", -1, MOST_GROUP, default=-1)
        stored = bits * 1000
        if weights.text("type", "int") == "float" and bits == 4:  # noqa: PLR2004 - fp4: fp8 scales
            stored = _grouped(bits, 8, size if size > 0 else 16)
        elif size > 0:
            zero = 0 if weights.flag("symmetric", default=True) else bits
            stored = _grouped(bits, 16, size, zero)
        targets = group.items("targets", MOST_PATTERNS) or ["Linear"]
        everything = any(isinstance(t, str) and t in {"Linear", "FusedMoE"} for t in targets)
        where = None if everything else ModulePatterns(targets, f"{group.path}targets")
        schemes.append(Scheme(stored, where))
    # Targeted groups come first: what is named closely wins over "Linear".
    schemes.sort(key=lambda scheme: scheme.modules is None)
    return Quantization(
        "compressed-tensors", tuple(schemes), _patterns(config, "ignore", "ignored_layers"),
        kv_cache=_kv_cache(config.data.get("kv_cache_scheme")),
    )  # fmt: skip


def _modelopt(config: Fields) -> Quantization:
    algorithm = config.text("quant_algo").upper()
    bits = _MODELOPT.get(algorithm)
    if bits is None:
        raise Refused(
            "UnsupportedQuantization",
            f"{config.path}quant_algo",
            f"{config.path}quant_algo is {shown(algorithm)}; known are {', '.join(_MODELOPT)}",
        )
    kv_cache = config.data.get("kv_cache_quant_algo", config.data.get("kv_cache_scheme"))
    return Quantization(
        "modelopt", (Scheme(bits),), _patterns(config, "ignore", "exclude_modules"),
        kv_cache=_kv_cache(kv_cache),
    )  # fmt: skip


def _kv_cache(scheme: Any) -> str:
    """The KV cache dtype that a checkpoint's scheme asks for.

    Raises:
        Refused: a scheme that is not 8-bit float.
    """
    if scheme is None or scheme in ("", "NONE"):
        return ""
    if isinstance(scheme, str) and scheme.upper() == "FP8":
        return "fp8"
    if isinstance(scheme, Mapping):
        fields = Fields(scheme, "kv_cache_scheme.")
        if fields.integer("num_bits", 1, 16) == 8 and fields.text("type") == "float":  # noqa: PLR2004 - fp8
            return "fp8"
    raise Refused(
        "UnsupportedQuantization",
        "kv_cache_scheme",
        f"kv_cache_scheme is {shown(scheme)}; only FP8 has a rule here. Set --kv-cache-dtype",
    )


def read_quantization(config: Fields | None) -> Quantization:
    """How the checkpoint is stored.

    Args:
        config: `quantization_config` of the config.json, or the `quantization` part of
            hf_quant_config.json; None if there is neither.

    Raises:
        Refused: a format or a detail of one without a rule here.
    """
    if config is None or not config.data:
        return NONE
    method = canonical_method(config.text("quant_method"))
    if not method and config.has("quant_algo"):
        method = "modelopt"  # ModelOpt leaves the method out of older files
    if method in ("fp8", "fbgemm_fp8"):
        return _fp8(config)
    if method in ("awq", "gptq"):
        return _integer_groups(config, method)
    if method == "compressed-tensors":
        return _compressed(config)
    if method == "modelopt":
        return _modelopt(config)
    if method == "mxfp4":
        # 4 bits and one 8-bit exponent per 32 parameters.
        bits = _grouped(4, 8, 32)
        ignored = _patterns(config, "modules_to_not_convert")
        return Quantization("mxfp4", (Scheme(bits),), ignored, experts_only=True)
    raise Refused(
        "UnsupportedQuantization",
        f"{config.path}quant_method",
        f"{config.path}quant_method is {shown(method)}; known are {', '.join(METHODS)}",
    )
