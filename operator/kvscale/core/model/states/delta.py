"""Delta nets, linear attention and short convolutions: dimensions, state and parameters.

Sources: vllm v0.32.0 model_executor/layers/mamba: gdn/qwen_gdn_linear_attn.py,
gdn/kimi_gdn_linear_attn.py, linear/minimax_linear_attn.py, short_conv.py and mamba_utils.py
(MambaStateShapeCalculator, MambaStateDtypeCalculator).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part, column, replicated, row, shared, whole
from kvscale.core.model.shape import StatePart

_FP32 = BITS["float32"]


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """A gated delta net (Qwen3-Next, Qwen3.5, OLMo hybrid).

    Attributes:
        key_heads, value_heads, key_dim, value_dim: heads, and elements of one.
        kernel: taps of the convolution.
        dtype: format of the temporal state; "": the activations'.
        input_module: name of the matrix of Q, K, V (and the output gate).
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    dtype: str = ""
    input_module: str = "in_proj_qkv"

    def kept(self) -> tuple[StatePart, ...]:
        """The tensors of one layer's state."""
        channels = 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
        return (
            StatePart(channels, self.kernel - 1, elements_per_draft=1),
            StatePart(
                self.value_heads, self.value_dim * self.key_dim, dtype=self.dtype, temporal=True
            ),
        )

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide."""
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        into = f"linear_attn.{self.input_module}"
        yield column("recurrent", into, hidden, 2 * keys + 2 * values)
        yield column("recurrent", "linear_attn.in_proj_b", hidden, 2 * self.value_heads)
        yield row("recurrent", "linear_attn.out_proj", values, hidden)
        yield shared("recurrent", self.kernel * (2 * keys + values) + self.value_heads)
        yield shared("recurrent", self.value_heads, _FP32)
        yield whole("norms", self.value_dim)


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Delta attention with a decay per channel (Kimi-Linear).

    Attributes:
        heads, head_dim: of Q, K and V alike.
        kernel: taps of the convolution.
    """

    heads: int
    head_dim: int
    kernel: int

    def kept(self) -> tuple[StatePart, ...]:
        """The tensors of one layer's state."""
        inner = self.heads * self.head_dim
        return (
            StatePart(3 * inner, self.kernel - 1, elements_per_draft=1),
            StatePart(self.heads, self.head_dim * self.head_dim, dtype="float32", temporal=True),
        )

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide."""
        inner = self.heads * self.head_dim
        yield column("recurrent", "self_attn.q_proj", hidden, 3 * inner + self.heads)
        yield replicated("recurrent", "self_attn.f_a_proj", hidden, 2 * self.head_dim)
        yield column("recurrent", "self_attn.f_b_proj", self.head_dim, 2 * inner)
        yield row("recurrent", "self_attn.o_proj", inner, hidden)
        yield shared("recurrent", inner + 3 * inner * self.kernel + self.heads, _FP32)
        yield whole("norms", self.head_dim)


@dataclass(frozen=True, slots=True)
class Lightning:
    """Linear attention of MiniMax-Text-01.

    Attributes:
        heads, head_dim: of Q, K and V alike.
    """

    heads: int
    head_dim: int

    def kept(self) -> tuple[StatePart, ...]:
        """The tensor of one layer's state."""
        return (StatePart(self.heads, self.head_dim * self.head_dim),)

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide."""
        inner = self.heads * self.head_dim
        yield column("recurrent", "self_attn.qkv_proj", hidden, 3 * inner)
        yield column("recurrent", "self_attn.output_gate", hidden, inner)
        yield row("recurrent", "self_attn.out_proj", inner, hidden)
        yield shared("norms", inner)


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated short convolution (LFM2).

    Attributes:
        width: of the convolution, and of what goes into it.
        kernel: taps.
        bias: all its parts have one.
    """

    width: int
    kernel: int
    bias: bool

    def kept(self) -> tuple[StatePart, ...]:
        """The tensor of one layer's state; drafts add nothing to it (lfm2.py gives no num_spec)."""
        return (StatePart(self.width, self.kernel - 1),)

    def parts(self, hidden: int) -> Iterable[Part]:
        """Its parameters in a model that wide."""
        yield column("recurrent", "conv.in_proj", hidden, 3 * self.width, bias=self.bias)
        yield row("recurrent", "conv.out_proj", self.width, hidden)
        yield shared("recurrent", self.width * (self.kernel + self.bias))
        yield whole("norms", hidden if self.bias else 0)
