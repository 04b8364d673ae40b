"""Parameters of feed-forward layers: dense ones, and mixtures of experts.

Sources: vllm v0.32.0 model_executor/layers/fused_moe/{layer,routed_experts}.py and the modules of
each architecture for its router (its number format, its bias) and its shared experts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.model.dtypes import BITS
from kvscale.core.model.parts import Part, column, replicated, row, whole

_FP32 = BITS["float32"]


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense feed-forward: gate and up, then down; without a gate, up and down.

    Attributes:
        hidden, width: of the model, and between its matrices.
        gated: it has a gate.
        bias: its matrices have biases.
        module, up, down: name of the block inside a layer, and of its matrices.
        name: what it is, for the trace.
    """

    hidden: int
    width: int
    gated: bool = True
    bias: bool = False
    module: str = "mlp"
    up: str = ""
    down: str = "down_proj"
    name: str = "feedForward"


def dense(f: Dense) -> Iterable[Part]:
    """Parts of a dense feed-forward."""
    up = f.up or ("gate_proj" if f.gated else "up_proj")
    yield column(f.name, f"{f.module}.{up}", f.hidden, (1 + f.gated) * f.width, bias=f.bias)
    yield row(f.name, f"{f.module}.{f.down}", f.width, f.hidden)
    yield whole("norms", f.hidden if f.bias else 0)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture of experts.

    Attributes:
        hidden: width of the model.
        count, per_token: routed experts, and how many of them a token uses.
        width: intermediate size of one.
        module: name of the block inside a layer.
        expert: name of an expert's first matrix; "": as in a dense feed-forward.
        gated: an expert has a gate.
        bias: its matrices have biases.
        shared_width: intermediate size of what every token passes through; 0 if none.
        shared_module: name of that block.
        shared_gate: it has a gate of its own, one row.
        router_bits: format of the router; 0: the model's.
        router_extra: further elements of the router in the model's format (its bias, scales).
        correction: one fp32 term per expert that corrects its score.
        expert_bits: format of the experts where it is their own; 0: as the checkpoint stores them.
        latent: width that the experts work in, between two matrices of their own; 0: the model's.
    """

    hidden: int
    count: int
    per_token: int
    width: int
    module: str = "mlp"
    expert: str = ""
    gated: bool = True
    bias: bool = False
    shared_width: int = 0
    shared_module: str = "shared_experts"
    shared_gate: bool = False
    router_bits: int = 0
    router_extra: int = 0
    correction: bool = False
    latent: int = 0
    expert_bits: int = 0


def mixture(m: Mixture) -> Iterable[Part]:
    """Parts of a mixture of experts."""
    inner = m.latent or m.hidden
    touched = max(1, 1000 * m.per_token // m.count)
    up = m.expert or ("gate_proj" if m.gated else "up_proj")
    module = f"{m.module}.experts.0.{up}" if m.module else f"experts.0.{up}"
    yield whole("router", m.count * m.hidden, m.router_bits)
    yield whole("router", m.router_extra + (m.hidden if m.shared_gate else 0))
    yield Part(
        "router", "", m.count if m.correction else 0, split=False, linear=False, bits=_FP32,
        buffer=True,
    )  # fmt: skip
    matrices = (2 + m.gated) * inner * m.width
    yield Part(
        "experts", module, m.count * matrices, touched=touched, by_data=True, units=m.width,
        experts=m.count, bits=m.expert_bits,
    )  # fmt: skip
    if m.bias:
        # The bias after a row-parallel matrix is whole on every rank.
        yield Part(
            "experts", "", m.count * (1 + m.gated) * m.width, linear=False, touched=touched,
            by_data=True, units=m.width, experts=m.count,
        )  # fmt: skip
        yield Part(
            "experts", "", m.count * inner, split=False, linear=False, touched=touched,
            experts=m.count,
        )  # fmt: skip
    if m.latent:
        yield replicated("router", f"{m.module}.fc1_latent_proj", m.hidden, m.latent)
        yield replicated("router", f"{m.module}.fc2_latent_proj", m.latent, m.hidden)
    if m.shared_width:
        yield from dense(
            Dense(
                m.hidden, m.shared_width, gated=m.gated, name="sharedExperts",
                module=f"{m.module}.{m.shared_module}",
            )
        )  # fmt: skip
