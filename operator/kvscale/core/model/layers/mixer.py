"""The ways in which a layer looks back on the tokens before it."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from kvscale.core.model.bounds import MOST_LAYERS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.lists import layer_names


class Mixer(StrEnum):
    """How a layer looks back."""

    FULL = "full attention"
    SLIDING = "sliding window"
    CHUNKED = "chunked local attention"
    COMPRESSED = "compressed latent attention"
    MAMBA1 = "Mamba1"
    MAMBA2 = "Mamba2"
    GATED_DELTA = "gated delta net"
    KIMI_DELTA = "Kimi delta attention"
    LINEAR = "linear attention"
    CONVOLUTION = "short convolution"
    BOTH = "Mamba2 and full attention"
    SHARED = "full attention over an earlier layer's cache"
    SHARED_SLIDING = "sliding window over an earlier layer's cache"
    CROSSED = "full attention and attention to an encoder"
    NONE = "none"

    @property
    def windowed(self) -> bool:
        """Whether the layer sees a sliding window, be it in a cache of its own or not."""
        return self in (Mixer.SLIDING, Mixer.SHARED_SLIDING)

    @property
    def attends(self) -> bool:
        """Whether the layer has attention, alone or beside something else."""
        return self not in _WITHOUT_ATTENTION

    @property
    def reads_another(self) -> bool:
        """Whether the layer attends over the cache of an earlier one and keeps none."""
        return self in (Mixer.SHARED, Mixer.SHARED_SLIDING)


_WITHOUT_ATTENTION = frozenset({
    Mixer.MAMBA1, Mixer.MAMBA2, Mixer.GATED_DELTA, Mixer.KIMI_DELTA, Mixer.LINEAR,
    Mixer.CONVOLUTION, Mixer.NONE,
})  # fmt: skip

Mixers = Sequence[Mixer]
"""One mixer per layer."""

Reading = Callable[[Fields, int], Mixers]
"""The mixers of a config with so many layers."""

ATTENTION = {"full_attention": Mixer.FULL, "sliding_attention": Mixer.SLIDING}
"""Names in `layer_types` of models of attention alone (transformers configuration_utils.py)."""


def unsupported(field: str, kind: str) -> Refused:
    """The refusal of a layer kind without a rule."""
    return Refused(
        "UnsupportedLayerKind",
        field,
        f"{field} shows layers of kind {kind}, whose KV cache has no rule here for this "
        "architecture. Declare the layers by a model.shape of your own, or let a running engine "
        "report its ceiling",
    )


def named(
    config: Fields, key: str, layers: int, names: dict[str, Mixer] = ATTENTION
) -> Mixers | None:
    """The list of names under a key, read; None where there is none.

    Args:
        config: of the text model.
        key: of the list.
        layers: how many the model has; further names (of draft layers) are left out.
        names: what each name stands for.

    Raises:
        Refused: too short, or an entry that is none of the names.
    """
    listed = config.items(key, 4 * MOST_LAYERS)
    if not listed:
        return None
    for name in listed[:layers]:
        # A kind without a rule matters more than how many there are.
        if isinstance(name, str) and name not in names:
            raise unsupported(config.path + key, name[:60])
    return [names[name] for name in layer_names(config, key, layers)]


def only(mixer: Mixer) -> Reading:
    """A model whose layers are all alike."""

    def read(_config: Fields, layers: int) -> Mixers:
        return [mixer] * layers

    return read
