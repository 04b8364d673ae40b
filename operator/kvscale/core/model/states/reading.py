"""The mixer with a state of a config: which class, and its dimensions.

Defaults are those of the configuration classes (transformers v4.57, models named in the functions);
formats of the states: vllm v0.32.0 model_executor/models/config.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from kvscale.core.model.bounds import MOST_TAPS, MOST_WIDTH
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.parts import Part
from kvscale.core.model.shape import LayerKind, StatePart
from kvscale.core.model.states.delta import GatedDelta, KimiDelta, Lightning, ShortConvolution
from kvscale.core.model.states.mamba import Mamba1, Mamba2


class Recurrent(Protocol):
    """A mixer with a state, from its two sides."""

    def kept(self) -> tuple[StatePart, ...]:
        """The tensors of one layer's state."""
        ...

    def parts(self, hidden: int) -> Iterable[Part]:
        """The parameters of one layer in a model that wide."""
        ...


def _size(config: Fields, key: str, default: int | None = None) -> int:
    return config.integer(key, 1, MOST_WIDTH, default)


def _taps(config: Fields, key: str, default: int = 4) -> int:
    return config.integer(key, 1, MOST_TAPS, default)


def _expanded(config: Fields, key: str) -> int:
    """The inner width: a multiple of the model's, twice as wide by default."""
    factor = config.number(key, 0.01, 64.0, 2.0)
    return max(1, int(factor * _size(config, "hidden_size")))


def _shared_out(config: Fields, key: str, inner: int, heads: int) -> int:
    """Elements per head, stated or "auto"; all heads together are as wide as the mixer.

    The configuration classes refuse other values (transformers v4.57 configuration_bamba.py).
    """
    size = inner // heads if config.data.get(key) in (None, "auto") else _size(config, key)
    if heads * size != inner:
        raise Refused(
            "InvalidConfig",
            config.path + key,
            f"{config.path}{key} is {size} for each of {heads} heads; all heads together must be "
            f"as wide as the mixer, which is {inner}",
        )
    return size


def _rank(config: Fields, key: str) -> int:
    """The rank of the time steps, stated or "auto" (0: Mamba's own rule)."""
    return 0 if config.data.get(key) in (None, "auto") else _size(config, key)


def named_mamba2(config: Fields) -> Mamba2:
    """Bamba and Granite 4: keys that begin with `mamba_`."""
    stated = config.integer("mamba_d_ssm", 0, MOST_WIDTH, default=0)
    inner = stated or _expanded(config, "mamba_expand")
    heads = _size(config, "mamba_n_heads", 128)
    return Mamba2(
        heads,
        _shared_out(config, "mamba_d_head", inner, heads),
        _size(config, "mamba_n_groups", 1),
        _size(config, "mamba_d_state", 256),
        _taps(config, "mamba_d_conv"),
        bias=config.flag("mamba_proj_bias"),
        kernel_bias=config.flag("mamba_conv_bias", default=True),
        module="mamba",
    )


def falcon_h1(config: Fields) -> Mamba2:
    """The same keys; the gated norm can be switched off, and is by default."""
    return replace(named_mamba2(config), norm=config.flag("mamba_rms_norm"))


def nemotron_h(config: Fields) -> Mamba2:
    """Nemotron-H; its inner width is what its heads make of it."""
    return Mamba2(
        _size(config, "mamba_num_heads"),
        _size(config, "mamba_head_dim"),
        _size(config, "n_groups", 8),
        _size(config, "ssm_state_size"),
        _taps(config, "conv_kernel"),
        bias=config.flag("use_bias"),
        kernel_bias=config.flag("use_conv_bias", default=True),
        # Only float32 is known to cost no accuracy (models/config.py, NemotronHForCausalLMConfig).
        dtype=config.text("mamba_ssm_cache_dtype", "float32"),
    )


def zamba2(config: Fields) -> Mamba2:
    """Zamba 2, whose class computes the size of a head whatever the config says."""
    heads = _size(config, "n_mamba_heads", 8)
    return Mamba2(
        heads,
        max(1, _expanded(config, "mamba_expand") // heads),
        _size(config, "mamba_ngroups", 1),
        _size(config, "mamba_d_state", 64),
        _taps(config, "mamba_d_conv"),
        bias=config.flag("add_bias_linear"),
        kernel_bias=config.flag("use_conv_bias", default=True),
        module="mamba",
    )


def pure_mamba2(config: Fields) -> Mamba2:
    """Mamba 2 without attention, which needs its inner width to be that of its heads."""
    return Mamba2(
        _size(config, "num_heads", 128),
        _size(config, "head_dim", 64),
        _size(config, "n_groups", 8),
        _size(config, "state_size", 128),
        _taps(config, "conv_kernel"),
        bias=config.flag("use_bias"),
        kernel_bias=config.flag("use_conv_bias", default=True),
    )


def jamba(config: Fields) -> Mamba1:
    """Jamba."""
    return Mamba1(
        _expanded(config, "mamba_expand"),
        _size(config, "mamba_d_state", 16),
        _taps(config, "mamba_d_conv"),
        _rank(config, "mamba_dt_rank"),
        bias=config.flag("mamba_proj_bias"),
        kernel_bias=config.flag("mamba_conv_bias", default=True),
        norms=True,
        module="mamba",
        dtype=config.text("mamba_ssm_dtype"),
    )


def pure_mamba1(config: Fields) -> Mamba1:
    """Mamba and Falcon-Mamba."""
    return Mamba1(
        _size(config, "intermediate_size")
        if config.has("intermediate_size")
        else _expanded(config, "expand"),
        _size(config, "state_size", 16),
        _taps(config, "conv_kernel"),
        _rank(config, "time_step_rank"),
        bias=config.flag("use_bias"),
        kernel_bias=config.flag("use_conv_bias", default=True),
        dtype=config.text("mamba_ssm_dtype"),
    )


def gated_delta(config: Fields) -> GatedDelta:
    """Qwen3-Next, Qwen3.5 and OLMo hybrid."""
    return GatedDelta(
        _size(config, "linear_num_key_heads", 16),
        _size(config, "linear_num_value_heads", 32),
        _size(config, "linear_key_head_dim", 128),
        _size(config, "linear_value_head_dim", 128),
        _taps(config, "linear_conv_kernel_dim"),
        dtype=config.text("mamba_ssm_dtype"),
    )


def kimi_delta(config: Fields) -> KimiDelta:
    """Kimi-Linear, whose keys stand in an object of their own."""
    linear = config.child("linear_attn_config") or config
    return KimiDelta(
        _size(linear, "num_heads"),
        _size(linear, "head_dim"),
        _taps(linear, "short_conv_kernel_size"),
    )


def lightning(config: Fields) -> Lightning:
    """MiniMax-Text-01, whose linear layers have the heads of the others."""
    heads = _size(config, "num_attention_heads")
    if config.has("head_dim"):
        return Lightning(heads, _size(config, "head_dim"))
    return Lightning(heads, _shared_out(config, "head_dim", _size(config, "hidden_size"), heads))


def short_convolution(config: Fields) -> ShortConvolution:
    """LFM2, as wide as the model unless `conv_dim` says otherwise."""
    width = _size(config, "conv_dim" if config.has("conv_dim") else "hidden_size")
    return ShortConvolution(width, _taps(config, "conv_L_cache", 3), bias=config.flag("conv_bias"))


_BY_ARCHITECTURE: dict[str, Callable[[Fields], Recurrent]] = {
    "FalconH1ForCausalLM": falcon_h1,
    "NemotronHForCausalLM": nemotron_h,
    "Zamba2ForCausalLM": zamba2,
    "Mamba2ForCausalLM": pure_mamba2,
    "JambaForCausalLM": jamba,
}
_BY_KIND: dict[LayerKind, Callable[[Fields], Recurrent]] = {
    LayerKind.MAMBA1: pure_mamba1,
    LayerKind.MAMBA2: named_mamba2,
    LayerKind.GATED_DELTA_NET: gated_delta,
    LayerKind.KIMI_DELTA: kimi_delta,
    LayerKind.LINEAR_ATTENTION: lightning,
    LayerKind.SHORT_CONVOLUTION: short_convolution,
}


def recurrent(config: Fields, architecture: str, kind: LayerKind) -> Recurrent:
    """The mixer of the layers that keep a state.

    Args:
        config: of the text model.
        architecture: `architectures[0]`.
        kind: a recurrent one.

    Raises:
        Refused: a dimension is missing or absurd, with its key.
    """
    return _BY_ARCHITECTURE.get(architecture, _BY_KIND[kind])(config)
