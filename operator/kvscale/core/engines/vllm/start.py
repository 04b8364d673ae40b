"""What vLLM looks at before it starts, and the form of a rule by which it does not start.

A rule is a function of a `Start` that returns None, or the Refusal. The rules stand in `releases`
(what a version has), `absent` (what a model lacks), `division` (what ranks can share), `kernels`
(what a device can run), `caches` (formats of the KV cache) and `drafting` (speculation); `checks`
puts them in order.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvscale.core.devices.compute_capability import Capability
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.rules import Rules
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Start:
    """An engine that is about to start.

    Attributes:
        rules: of its version.
        shape: the model, in the format that it is loaded in.
        engine: what is stated.
        kv: the KV cache's dtype, resolved ("bfloat16", "fp8", "fp8_ds_mla", ...).
        capability: (major, minor) of the device; None: not known, its rules are passed over.
        kinds: of the model's layers.
    """

    rules: Rules
    shape: ModelShape
    engine: EngineConfig
    kv: str
    capability: Capability | None
    kinds: frozenset[LayerKind]

    @property
    def latent(self) -> bool:
        """Whether attention is MLA, sparse or not (but not DeepSeek-V4's)."""
        return LayerKind.MLA in self.kinds

    @property
    def sparse(self) -> bool:
        """Whether it is MLA with an indexer (DeepSeek-V3.2, GLM-5)."""
        return LayerKind.MLA in self.kinds and LayerKind.SPARSE_INDEXER in self.kinds

    @property
    def compressed(self) -> bool:
        """Whether it is DeepSeek-V4's."""
        return LayerKind.COMPRESSED_MLA in self.kinds

    @property
    def sm(self) -> str:
        """The compute capability for a person ("9.0")."""
        return "not known" if self.capability is None else "{}.{}".format(*self.capability)


Rule = Callable[[Start], Refusal | None]


def kinds_of(shape: ModelShape) -> frozenset[LayerKind]:
    """The kinds of the model's layers."""
    return frozenset(group.kind for group in shape.layer_groups)
