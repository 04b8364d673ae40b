"""How a checkpoint stores its weights: bits per parameter, module by module.

Every scheme counts its scales: a group of g parameters shares a scale of s bits (and, where it is
asymmetric, a zero point), hence bits + (s + zero) / g per parameter. Scales per tensor or per
channel are below 0.1 % and left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvscale.core.model.checkpoint.module_patterns import MOST_PATTERNS, ModulePatterns
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields
from kvscale.core.model.shape import WeightGroup

MOST_GROUP = 1 << 20

HEAD = "lm_head"


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
        head: the output head is quantised as all linear modules are; False: only by name.
        experts_only: only the experts of a mixture are quantised (mxfp4).
        kv_cache: KV cache dtype that the checkpoint asks for under `auto`; "" if none.
        rounded: how a kernel pads what it stores; None: not at all.
        note: what the engine makes of a config that it does not recognise; "" if nothing.
    """

    method: str = ""
    schemes: tuple[Scheme, ...] = ()
    ignored: ModulePatterns | None = None
    head: bool = False
    experts_only: bool = False
    kv_cache: str = ""
    rounded: Callable[[WeightGroup, int], WeightGroup] | None = None
    note: str = ""

    def names_layer(self, index: int) -> bool:
        """Whether that layer may be stored otherwise than one that no pattern names."""
        return any(
            patterns.names_layer(index)
            for patterns in (self.ignored, *(scheme.modules for scheme in self.schemes))
            if patterns is not None
        )

    def stored(self, group: WeightGroup, hidden: int) -> WeightGroup:
        """The group as the kernels of the engine keep it, padding included.

        Args:
            group: as the checkpoint has it.
            hidden: width of the model.
        """
        return group if self.rounded is None else self.rounded(group, hidden)

    def bits(self, module: str, dtype: str) -> int:
        """Thousandths of a bit per parameter of a linear module.

        Args:
            module: its full name ("model.layers.3.mlp.down_proj").
            dtype: format of what is not quantised.
        """
        plain = BITS[dtype]
        named_only = module == HEAD and not self.head
        if self.experts_only and ".experts." not in module:
            return plain
        if self.ignored is not None and module in self.ignored:
            return plain
        for scheme in self.schemes:
            if module in scheme.modules if scheme.modules is not None else not named_only:
                return scheme.bits_milli or plain
        return plain


NONE = Quantization()
"""A checkpoint in bf16, fp16 or fp32."""


def grouped(bits: int, scale_bits: int, group: int, zero_bits: int = 0) -> int:
    """Thousandths of a bit per parameter where a group shares a scale and a zero point."""
    return bits * 1000 + (scale_bits + zero_bits) * 1000 // group


def patterns(config: Fields, *keys: str) -> ModulePatterns:
    """The ignore list under the first of these keys that is there."""
    key = next((key for key in keys if config.has(key)), keys[0])
    return ModulePatterns(config.items(key, MOST_PATTERNS), config.path + key)
