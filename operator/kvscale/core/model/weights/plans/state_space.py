"""Layers of models with Mamba-1 mixers, and of those with Mamba-2 mixers alone.

Sources: vllm v0.32.0 model_executor/models/{jamba,mamba,mamba2}.py.
"""

from collections.abc import Iterable

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.mixer import Mixer
from kvscale.core.model.parts import Part, Plan, plan_of, whole
from kvscale.core.model.states.reading import jamba, pure_mamba1, pure_mamba2
from kvscale.core.model.weights.attention import heads_attention
from kvscale.core.model.weights.plans.common import (
    common_dense,
    common_heads,
    common_mixture,
)
from kvscale.core.model.weights.sizes import Dimensions


def jamba_plan(text: Fields, d: Dimensions, table_row: Architecture) -> Plan:
    """Jamba: Mamba-1 with attention every n-th layer, mixtures every m-th."""
    mixer = jamba(text)
    experts = frozenset(d.experts.layers) if d.experts else frozenset()

    def build(kind: tuple[bool, bool]) -> Iterable[Part]:
        attends, mixed = kind
        yield from heads_attention(common_heads(d)) if attends else mixer.parts(d.hidden)
        yield from common_mixture(d, table_row) if mixed else common_dense(d)
        yield whole("norms", 2 * d.norm)

    return plan_of([(m is Mixer.FULL, i in experts) for i, m in enumerate(d.mixers)], build)


def mamba1_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Mamba and Falcon-Mamba: nothing but mixers; Falcon's norms have no weights."""
    mixer = pure_mamba1(text)

    def build(_kind: int) -> Iterable[Part]:
        yield from mixer.parts(d.hidden)
        yield whole("norms", d.norm)

    return plan_of([0] * d.layers, build)


def mamba2_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Mamba-2: nothing but mixers."""
    mixer = pure_mamba2(text)

    def build(_kind: int) -> Iterable[Part]:
        yield from mixer.parts(d.hidden)
        yield whole("norms", d.norm)

    return plan_of([0] * d.layers, build)
