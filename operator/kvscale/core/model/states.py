"""The state of a recurrent layer: tensors of fixed size, one set per sequence.

Shapes: vllm v0.32.0 model_executor/layers/mamba/mamba_utils.py, MambaStateShapeCalculator; their
formats: MambaStateDtypeCalculator and the models' own config classes (models/config.py). Groups
that tensor parallelism does not divide are repeated, so that each rank has those of its heads.
"""

from collections.abc import Callable

from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import LayerKind, StatePart

MOST = 1 << 24
"""No dimension of a state is larger."""

FLOAT32 = "float32"


def _size(config: Fields, key: str, default: int | None = None) -> int:
    return config.integer(key, 1, MOST, default)


def _kernel(config: Fields, key: str, default: int | None = None) -> int:
    """Tokens that the convolution looks back on: its width less the token itself."""
    return config.integer(key, 1, 1 << 10, default) - 1


def _convolution(channels: int, past: int) -> StatePart:
    return StatePart(channels, past, elements_per_draft=1)


def _mamba1(config: Fields, inner: int, state: int, past: int) -> tuple[StatePart, ...]:
    dtype = config.text("mamba_ssm_dtype")
    return (
        StatePart(inner, past),
        StatePart(inner, state, dtype=dtype, temporal=True),
    )


def _mamba2(
    past: int, *, inner: int, groups: int, heads: int, head_dim: int, state: int, dtype: str
) -> tuple[StatePart, ...]:
    return (
        _convolution(inner, past),
        StatePart(groups, 2 * state * past, elements_per_draft=2 * state),
        StatePart(heads, head_dim * state, dtype=dtype, temporal=True),
    )


def _head_dim(config: Fields, key: str, inner: int, heads: int) -> int:
    """Stated, or "auto": the inner width shared out over the heads."""
    if config.data.get(key) in (None, "auto"):
        if inner % heads:
            raise Refused(
                "InvalidConfig",
                config.path + key,
                f"{config.path}{key} is not stated and the inner width {inner} is no multiple of "
                f"{heads} heads; set it",
            )
        return inner // heads
    return _size(config, key)


def _expanded(config: Fields, key: str, default: float = 2.0) -> int:
    factor = config.number(key, 0.01, 64.0, default)
    return max(1, int(factor * _size(config, "hidden_size")))


def _mamba2_named(config: Fields) -> tuple[StatePart, ...]:
    """Bamba, Falcon-H1 and Granite 4: keys that begin with `mamba_`."""
    inner = (
        _size(config, "mamba_d_ssm")
        if config.has("mamba_d_ssm")
        else _expanded(config, "mamba_expand")
    )
    heads = _size(config, "mamba_n_heads")
    return _mamba2(
        _kernel(config, "mamba_d_conv", 4),
        inner=inner,
        groups=_size(config, "mamba_n_groups", 1),
        heads=heads,
        head_dim=_head_dim(config, "mamba_d_head", inner, heads),
        state=_size(config, "mamba_d_state"),
        dtype="",
    )


def _nemotron_h(config: Fields) -> tuple[StatePart, ...]:
    heads = _size(config, "mamba_num_heads")
    head_dim = _size(config, "mamba_head_dim")
    return _mamba2(
        _kernel(config, "conv_kernel", 4),
        inner=heads * head_dim,
        groups=_size(config, "n_groups"),
        heads=heads,
        head_dim=head_dim,
        state=_size(config, "ssm_state_size"),
        # Only float32 is known to cost no accuracy (models/config.py, NemotronHForCausalLMConfig).
        dtype=config.text("mamba_ssm_cache_dtype", FLOAT32),
    )


def _zamba2(config: Fields) -> tuple[StatePart, ...]:
    inner = _expanded(config, "mamba_expand")
    heads = _size(config, "n_mamba_heads")
    return _mamba2(
        _kernel(config, "mamba_d_conv", 4),
        inner=inner,
        groups=_size(config, "mamba_ngroups", 1),
        heads=heads,
        head_dim=_head_dim(config, "mamba_headdim", inner, heads),
        state=_size(config, "mamba_d_state"),
        dtype="",
    )


def _pure_mamba2(config: Fields) -> tuple[StatePart, ...]:
    return _mamba2(
        _kernel(config, "conv_kernel", 4),
        inner=_expanded(config, "expand"),
        groups=_size(config, "n_groups", 1),
        heads=_size(config, "num_heads"),
        head_dim=_size(config, "head_dim"),
        state=_size(config, "state_size"),
        dtype="",
    )


def _jamba(config: Fields) -> tuple[StatePart, ...]:
    return _mamba1(
        config,
        _expanded(config, "mamba_expand"),
        _size(config, "mamba_d_state", 16),
        _kernel(config, "mamba_d_conv", 4),
    )


def _pure_mamba1(config: Fields) -> tuple[StatePart, ...]:
    inner = (
        _size(config, "intermediate_size")
        if config.has("intermediate_size")
        else _expanded(config, "expand")
    )
    state = _size(config, "state_size", 16)
    return _mamba1(config, inner, state, _kernel(config, "conv_kernel", 4))


def _gated_delta(config: Fields) -> tuple[StatePart, ...]:
    key_heads, key_dim = _size(config, "linear_num_key_heads"), _size(config, "linear_key_head_dim")
    heads = _size(config, "linear_num_value_heads")
    value_dim = _size(config, "linear_value_head_dim")
    past = _kernel(config, "linear_conv_kernel_dim", 4)
    return (
        _convolution(2 * key_heads * key_dim + heads * value_dim, past),
        StatePart(
            heads, value_dim * key_dim, dtype=config.text("mamba_ssm_dtype"), temporal=True
        ),
    )  # fmt: skip


def _kimi_delta(config: Fields) -> tuple[StatePart, ...]:
    linear = config.child("linear_attn_config") or config
    heads, head_dim = _size(linear, "num_heads"), _size(linear, "head_dim")
    return (
        _convolution(3 * heads * head_dim, _kernel(linear, "short_conv_kernel_size", 4)),
        StatePart(heads, head_dim * head_dim, dtype=FLOAT32, temporal=True),
    )


def _linear(config: Fields) -> tuple[StatePart, ...]:
    heads = _size(config, "num_attention_heads")
    head_dim = _head_dim(config, "head_dim", _size(config, "hidden_size"), heads)
    return (StatePart(heads, head_dim * head_dim),)


def _short_convolution(config: Fields) -> tuple[StatePart, ...]:
    width = _size(config, "conv_dim", config.integer("hidden_size", 1, MOST, default=1))
    # The kernel of LFM2 counts drafts neither (lfm2.py gives no num_spec).
    return (StatePart(width, _kernel(config, "conv_L_cache", 3)),)


_BY_ARCHITECTURE: dict[str, Callable[[Fields], tuple[StatePart, ...]]] = {
    "NemotronHForCausalLM": _nemotron_h,
    "Zamba2ForCausalLM": _zamba2,
    "Mamba2ForCausalLM": _pure_mamba2,
    "JambaForCausalLM": _jamba,
}
_BY_KIND: dict[LayerKind, Callable[[Fields], tuple[StatePart, ...]]] = {
    LayerKind.MAMBA1: _pure_mamba1,
    LayerKind.MAMBA2: _mamba2_named,
    LayerKind.GATED_DELTA_NET: _gated_delta,
    LayerKind.KIMI_DELTA: _kimi_delta,
    LayerKind.LINEAR_ATTENTION: _linear,
    LayerKind.SHORT_CONVOLUTION: _short_convolution,
}


def state_parts(config: Fields, architecture: str, kind: LayerKind) -> tuple[StatePart, ...]:
    """The tensors of one layer's state.

    Args:
        config: of the text model.
        architecture: `architectures[0]`.
        kind: a recurrent one.

    Raises:
        Refused: a dimension is missing or absurd, with its key.
    """
    return _BY_ARCHITECTURE.get(architecture, _BY_KIND[kind])(config)
