"""Mamba mixers: dimensions, the state that a layer keeps, and the parameters that it has.

Sources: vllm v0.32.0 model_executor/layers/mamba/{mamba_mixer,mamba_mixer2,mamba_utils}.py
(MambaStateShapeCalculator). Groups that tensor parallelism does not divide are repeated, so that
each rank has those of its heads.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part, column, row, shared, whole
from kvscale.core.model.shape import StatePart

_FP32 = BITS["float32"]


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A Mamba-2 mixer.

    Attributes:
        heads, head_dim: of the state space; their product is the inner width.
        groups: groups that share B and C.
        state: size of the state.
        kernel: taps of the convolution.
        bias, kernel_bias: which parts have a bias.
        norm: the gated norm has a weight.
        module: name of the block inside a layer.
        dtype: format of the temporal state; "": the activations'.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool
    kernel_bias: bool
    norm: bool = True
    module: str = "mixer"
    dtype: str = ""

    def kept(self) -> tuple[StatePart, ...]:
        """The tensors of one layer's state."""
        past = self.kernel - 1
        return (
            StatePart(self.heads * self.head_dim, past, elements_per_draft=1),
            StatePart(self.groups, 2 * self.state * past, elements_per_draft=2 * self.state),
            StatePart(self.heads, self.head_dim * self.state, dtype=self.dtype, temporal=True),
        )

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide; a rank has at least one whole group of B and C."""
        inner, shared_states = self.heads * self.head_dim, 2 * self.groups * self.state
        into = f"{self.module}.in_proj"
        yield column("recurrent", into, hidden, 2 * inner + self.heads, bias=self.bias)
        yield Part(
            "recurrent", into, shared_states * (hidden + self.bias),
            at_most=self.groups, units=self.groups,
        )  # fmt: skip
        yield row("recurrent", f"{self.module}.out_proj", inner, hidden)
        taps = self.kernel + self.kernel_bias
        yield shared("recurrent", inner * taps + 2 * self.heads)
        yield Part("recurrent", "", shared_states * taps, linear=False, at_most=self.groups)
        yield shared("recurrent", self.heads, _FP32)
        yield shared("norms", inner if self.norm else 0)
        yield whole("norms", hidden if self.bias else 0)


@dataclass(frozen=True, slots=True)
class Mamba1:
    """A Mamba-1 mixer.

    Attributes:
        inner: width of the mixer.
        state, kernel: size of the state, taps of the convolution.
        rank: width of the time step's latent; 0: a sixteenth of the model's, rounded up.
        bias, kernel_bias: which parts have a bias.
        norms: norms with weights on the time step, B and C (Jamba).
        module: name of the block inside a layer.
        dtype: format of the temporal state; "": the activations'.
    """

    inner: int
    state: int
    kernel: int
    rank: int
    bias: bool
    kernel_bias: bool
    norms: bool = False
    module: str = "mixer"
    dtype: str = ""

    def kept(self) -> tuple[StatePart, ...]:
        """The tensors of one layer's state."""
        return (
            StatePart(self.inner, self.kernel - 1),
            StatePart(self.inner, self.state, dtype=self.dtype, temporal=True),
        )

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide."""
        rank = self.rank or -(-hidden // 16)
        steps = rank + 2 * self.state
        yield column("recurrent", f"{self.module}.in_proj", hidden, 2 * self.inner, bias=self.bias)
        yield row("recurrent", f"{self.module}.x_proj", self.inner, steps)
        yield column("recurrent", f"{self.module}.dt_proj", rank, self.inner, bias=True)
        yield row("recurrent", f"{self.module}.out_proj", self.inner, hidden)
        yield shared("recurrent", self.inner * (self.kernel + self.kernel_bias + 1))
        yield shared("recurrent", self.inner * self.state, _FP32)
        yield whole("norms", (steps if self.norms else 0) + (hidden if self.bias else 0))
