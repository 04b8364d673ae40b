"""Parameters of layers that keep a state instead of K and V.

Sources: vllm v0.32.0 model_executor/layers/mamba/{mamba_mixer,mamba_mixer2,short_conv}.py,
mamba/gdn/{qwen_gdn_linear_attn,kimi_gdn_linear_attn}.py, mamba/linear/minimax_linear_attn.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part, column, row, shared, whole

_FP32 = BITS["float32"]


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """A gated delta net (Qwen3-Next, Qwen3.5).

    Attributes:
        hidden: width of the model.
        key_heads, value_heads, key_dim, value_dim: heads, and elements of one.
        kernel: taps of the convolution.
        input_module: name of the matrix of Q, K, V (and the output gate).
    """

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    input_module: str


def delta_net(g: DeltaNet) -> Iterable[Part]:
    """Parts of a gated delta net."""
    keys, values = g.key_heads * g.key_dim, g.value_heads * g.value_dim
    yield column("recurrent", f"linear_attn.{g.input_module}", g.hidden, 2 * keys + 2 * values)
    yield column("recurrent", "linear_attn.in_proj_b", g.hidden, 2 * g.value_heads)
    yield row("recurrent", "linear_attn.out_proj", values, g.hidden)
    yield shared("recurrent", g.kernel * (2 * keys + values) + g.value_heads)
    yield shared("recurrent", g.value_heads, _FP32)
    yield whole("norms", g.value_dim)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A Mamba-2 mixer.

    Attributes:
        hidden: width of the model.
        heads, head_dim: of the state space; their product is the inner width.
        groups: groups that share B and C.
        state: size of the state.
        kernel: taps of the convolution.
        bias, kernel_bias: which parts have a bias.
        norm: the gated norm has a weight.
        module: name of the block inside a layer.
    """

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool
    kernel_bias: bool
    norm: bool = True
    module: str = "mixer"


def mamba2(m: Mamba2) -> Iterable[Part]:
    """Parts of a Mamba-2 mixer; each rank has at least one whole group of B and C."""
    inner, shared_states = m.heads * m.head_dim, 2 * m.groups * m.state
    into = f"{m.module}.in_proj"
    yield column("recurrent", into, m.hidden, 2 * inner + m.heads, bias=m.bias)
    yield Part(
        "recurrent", into, shared_states * (m.hidden + m.bias), at_most=m.groups, units=m.groups
    )
    yield row("recurrent", f"{m.module}.out_proj", inner, m.hidden)
    taps = m.kernel + m.kernel_bias
    yield shared("recurrent", inner * taps + 2 * m.heads)
    yield Part("recurrent", "", shared_states * taps, linear=False, at_most=m.groups)
    yield shared("recurrent", m.heads, _FP32)
    yield shared("norms", inner if m.norm else 0)
    yield whole("norms", m.hidden if m.bias else 0)


@dataclass(frozen=True, slots=True)
class Mamba1:
    """A Mamba-1 mixer.

    Attributes:
        hidden, inner: width of the model, and of the mixer.
        state, rank, kernel: size of the state, width of the time step's latent, taps.
        bias, kernel_bias: which parts have a bias.
        norms: norms with weights on the time step, B and C (Jamba).
        module: name of the block inside a layer.
    """

    hidden: int
    inner: int
    state: int
    rank: int
    kernel: int
    bias: bool
    kernel_bias: bool
    norms: bool
    module: str = "mixer"


def mamba1(m: Mamba1) -> Iterable[Part]:
    """Parts of a Mamba-1 mixer."""
    yield column("recurrent", f"{m.module}.in_proj", m.hidden, 2 * m.inner, bias=m.bias)
    yield row("recurrent", f"{m.module}.x_proj", m.inner, m.rank + 2 * m.state)
    yield column("recurrent", f"{m.module}.dt_proj", m.rank, m.inner, bias=True)
    yield row("recurrent", f"{m.module}.out_proj", m.inner, m.hidden)
    yield shared("recurrent", m.inner * (m.kernel + m.kernel_bias + 1))
    yield shared("recurrent", m.inner * m.state, _FP32)
    yield whole("norms", (m.rank + 2 * m.state if m.norms else 0) + (m.hidden if m.bias else 0))


def short_convolution(hidden: int, kernel: int, *, bias: bool) -> Iterable[Part]:
    """Parts of a gated short convolution (LFM2).

    Args:
        hidden: width of the model.
        kernel: taps.
        bias: all its parts have one.
    """
    yield column("recurrent", "conv.in_proj", hidden, 3 * hidden, bias=bias)
    yield row("recurrent", "conv.out_proj", hidden, hidden)
    yield shared("recurrent", hidden * (kernel + bias))
    yield whole("norms", hidden if bias else 0)
