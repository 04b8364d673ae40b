"""What the rules of layers are given, and what they answer: `layer_rules` holds the rules."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kvscale.core.model.dtypes import KvDtype
from kvscale.core.model.shape import LayerGroup, LayerKind


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """How an engine stores what layers keep.

    Attributes:
        tensor_parallel: ranks that share the heads.
        kv: storage of K and V.
        activations: format of the activations.
        convolution: `--mamba-cache-dtype`; "auto": the activations'.
        temporal: `--mamba-ssm-cache-dtype`; "auto": what the model asks for.
        drafts: speculative tokens per step.
    """

    tensor_parallel: int
    kv: KvDtype
    activations: str = "bfloat16"
    convolution: str = "auto"
    temporal: str = "auto"
    drafts: int = 0


class Need(NamedTuple):
    """What a sequence needs of a layer's blocks; the fields are those of `CacheGroup`.

    Attributes:
        fixed_tokens: tokens that a sequence has there, whatever its own length.
    """

    fixed_blocks: int | None = None
    fixed_tokens: int | None = None
    admitted_tokens: int | None = None
    resident_tokens: int | None = None
    extra_blocks: int = 0


EVERY_TOKEN = Need()
"""All tokens stay, in blocks of their own."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the scheduler has under way, which a bounded layer must hold besides its bound.

    Attributes:
        in_flight: most tokens that are scheduled and not yet settled: a full batch of
            `--max-num-batched-tokens` for each step under way.
        decoding: the same of one decoding sequence: its tokens of each step under way.
        state_blocks: blocks of a recurrent state: one, one more under prefix caching, and one
            per draft token; None: one in every block of the sequence.
        encoder_tokens: what the engine sets aside for an encoder's output, at least.
        checkpoints: kinds of state that need one more, for what a prompt leaves behind on its way.
    """

    in_flight: int
    decoding: int
    state_blocks: int | None = 1
    checkpoints: frozenset[LayerKind] = frozenset()
    encoder_tokens: int = 0


class LayerRule(Protocol):
    """How layers of one kind keep the past."""

    def page_bytes(self, group: LayerGroup, block_tokens: int, cache: CacheFormat) -> int:
        """Bytes of one block of one layer on one device."""
        ...

    def need(self, group: LayerGroup, scheduling: Scheduling) -> Need:
        """How many blocks a sequence needs."""
        ...
