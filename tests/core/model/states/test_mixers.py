"""Mixers with a state: the same dimensions give what a layer keeps and what it is made of."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.shape import LayerKind
from kvscale.core.model.states.delta import GatedDelta, KimiDelta, Lightning, ShortConvolution
from kvscale.core.model.states.mamba import Mamba1, Mamba2
from kvscale.core.model.states.reading import Recurrent, recurrent

SIZE = st.integers(1, 64)


def elements(mixer: Recurrent) -> int:
    return sum(part.shares * part.elements for part in mixer.kept())


def parameters(mixer: Recurrent, hidden: int) -> int:
    return sum(part.parameters for part in mixer.parts(hidden))


@given(st.tuples(SIZE, SIZE, SIZE, SIZE), st.integers(2, 8), SIZE)
def test_a_mamba2_layer(sizes: tuple[int, int, int, int], kernel: int, hidden: int) -> None:
    heads, head_dim, groups, state = sizes
    mixer = Mamba2(heads, head_dim, groups, state, kernel, bias=False, kernel_bias=True)
    inner, shared = heads * head_dim, 2 * groups * state
    assert elements(mixer) == (inner + shared) * (kernel - 1) + inner * state
    projections = hidden * (2 * inner + shared + heads) + inner * hidden
    rest = (inner + shared) * (kernel + 1) + 3 * heads + inner
    assert parameters(mixer, hidden) == projections + rest


@given(SIZE, SIZE, st.integers(2, 8), SIZE)
def test_a_mamba1_layer(inner: int, state: int, kernel: int, hidden: int) -> None:
    mixer = Mamba1(inner, state, kernel, 0, bias=False, kernel_bias=True)
    rank = -(-hidden // 16)
    assert elements(mixer) == inner * (kernel - 1 + state)
    projections = 3 * hidden * inner + inner * (rank + 2 * state) + (rank + 1) * inner
    assert parameters(mixer, hidden) == projections + inner * (kernel + 2) + inner * state


def test_delta_nets_keep_a_matrix_per_head() -> None:
    assert elements(GatedDelta(16, 32, 128, 128, 4)) == 3 * (2 * 2048 + 4096) + 32 * 128 * 128
    assert elements(KimiDelta(32, 128, 4)) == 3 * 3 * 4096 + 32 * 128 * 128
    assert elements(Lightning(64, 128)) == 64 * 128 * 128


def test_a_convolution_is_as_wide_as_it_says() -> None:
    mixer = ShortConvolution(2048, 3, bias=False)
    assert elements(mixer) == 2 * 2048
    assert parameters(mixer, 1024) == 4 * 1024 * 2048 + 3 * 2048


@pytest.mark.parametrize(
    ("architecture", "kind", "expected"),
    [
        ("Mamba2ForCausalLM", LayerKind.MAMBA2,
         Mamba2(128, 64, 8, 128, 4, bias=False, kernel_bias=True)),
        ("BambaForCausalLM", LayerKind.MAMBA2,
         Mamba2(128, 64, 1, 256, 4, bias=False, kernel_bias=True, module="mamba")),
        ("Zamba2ForCausalLM", LayerKind.MAMBA2,
         Mamba2(8, 1024, 1, 64, 4, bias=False, kernel_bias=True, module="mamba")),
        ("Qwen3NextForCausalLM", LayerKind.GATED_DELTA_NET, GatedDelta(16, 32, 128, 128, 4)),
    ],
)  # fmt: skip
def test_what_a_config_leaves_out_is_what_its_class_says(
    architecture: str, kind: LayerKind, expected: Recurrent
) -> None:
    assert recurrent(Fields({"hidden_size": 4096}), architecture, kind) == expected


@pytest.mark.parametrize(
    "config",
    [{"mamba_d_head": 32}, {"mamba_n_heads": 100}, {"mamba_expand": 1, "mamba_d_head": 64}],
)
def test_heads_that_do_not_make_up_the_mixer_are_refused(config: dict[str, Any]) -> None:
    fields = Fields({"hidden_size": 4096} | config)
    with pytest.raises(Refused) as refused:
        recurrent(fields, "BambaForCausalLM", LayerKind.MAMBA2)
    assert refused.value.refusal.field == "mamba_d_head"
