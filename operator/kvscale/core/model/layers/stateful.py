"""Which layers of a hybrid model attend, and which keep a state instead.

Sources: vllm v0.32.0 model_executor/models of the architecture named, and the defaults of its
configuration class in transformers v4.57.
"""

from kvscale.core.model.bounds import MOST_LAYERS
from kvscale.core.model.fields import Fields, Refused, shown, whole
from kvscale.core.model.layers.lists import layer_integers, too_short
from kvscale.core.model.layers.mixer import Mixer, Mixers, named, unsupported

_GRANITE = {"full_attention": Mixer.FULL, "attention": Mixer.FULL, "mamba": Mixer.MAMBA2}
_ZAMBA = {"mamba": Mixer.MAMBA2, "hybrid": Mixer.BOTH}
_LFM = {"full_attention": Mixer.FULL, "conv": Mixer.CONVOLUTION}

_LETTERS = {"M": Mixer.MAMBA2, "*": Mixer.FULL, "-": Mixer.NONE, "E": Mixer.NONE}
_LETTER_OF = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
MOST_LETTERS = 4 * MOST_LAYERS


def nemotron_letters(config: Fields) -> str:
    """One letter per layer: M a state, * attention, - a feed-forward, E a mixture.

    Source: vllm v0.32.0 model_executor/models/nemotron_h.py.

    Args:
        config: of the text model.

    Raises:
        Refused: no pattern, or a letter that is none of these.
    """
    field = f"{config.path}hybrid_override_pattern"
    pattern = config.text("hybrid_override_pattern")
    if not pattern and config.has("layers_block_type"):
        listed = config.items("layers_block_type", MOST_LAYERS)
        pattern = "".join(_LETTER_OF.get(str(name), "?") for name in listed)
    pattern = pattern.replace("|", "")[:MOST_LETTERS]
    if not pattern:
        raise Refused(
            "InvalidConfig",
            field,
            f"{field} is {shown(pattern)}; it must be made of M, *, - and E, one per layer",
        )
    unknown = next((letter for letter in pattern if letter not in _LETTERS), None)
    if unknown is not None:
        raise unsupported(field, repr(unknown))
    return pattern


def nemotron_h(config: Fields, layers: int) -> Mixers:
    """By the letters of `hybrid_override_pattern`; a feed-forward is a layer of its own."""
    letters = nemotron_letters(config)
    if len(letters) < layers:
        raise too_short(f"{config.path}hybrid_override_pattern", len(letters), layers)
    return [_LETTERS[letter] for letter in letters[:layers]]


def gated_delta(config: Fields, layers: int) -> Mixers:
    """`layer_types`, else full attention at every n-th place (qwen3_next.py)."""
    names = {"full_attention": Mixer.FULL, "linear_attention": Mixer.GATED_DELTA}
    listed = named(config, "layer_types", layers, names)
    if listed is not None:
        return listed
    interval = config.integer("full_attention_interval", 1, MOST_LAYERS, default=4)
    return [Mixer.GATED_DELTA if (index + 1) % interval else Mixer.FULL for index in range(layers)]


def jamba(config: Fields, layers: int) -> Mixers:
    """Attention at one place of each period, Mamba elsewhere (transformers, JambaConfig)."""
    period = config.integer("attn_layer_period", 1, MOST_LAYERS, default=8)
    offset = config.integer("attn_layer_offset", 0, MOST_LAYERS, default=4)
    return [Mixer.FULL if index % period == offset else Mixer.MAMBA1 for index in range(layers)]


def _at_places(config: Fields, key: str, layers: int, other: Mixer) -> Mixers:
    places = {whole(place) for place in config.items(key, MOST_LAYERS)}
    return [Mixer.FULL if index in places else other for index in range(layers)]


def bamba(config: Fields, layers: int) -> Mixers:
    """Attention at the listed places."""
    return _at_places(config, "attn_layer_indices", layers, Mixer.MAMBA2)


def _listed(config: Fields, layers: int, names: dict[str, Mixer]) -> Mixers | None:
    for key in ("layer_types", "layers_block_type"):
        listed = named(config, key, layers, names)
        if listed is not None:
            return listed
    return None


def granite(config: Fields, layers: int) -> Mixers:
    """By name; without names, states alone (transformers, GraniteMoeHybridConfig)."""
    return _listed(config, layers, _GRANITE) or [Mixer.MAMBA2] * layers


def zamba2(config: Fields, layers: int) -> Mixers:
    """By name; a "hybrid" layer attends besides (zamba2.py)."""
    listed = _listed(config, layers, _ZAMBA)
    if listed is None:
        raise too_short(f"{config.path}layers_block_type", 0, layers)
    return listed


def lfm(config: Fields, layers: int) -> Mixers:
    """By name, else attention at the listed places (lfm2.py)."""
    listed = named(config, "layer_types", layers, _LFM)
    return listed or _at_places(config, "full_attn_idxs", layers, Mixer.CONVOLUTION)


def kimi_linear(config: Fields, layers: int) -> Mixers:
    """Places of states in `linear_attn_config`, counted from 1 (transformers_utils/configs)."""
    linear = config.child("linear_attn_config")
    if linear is None:
        return [Mixer.FULL] * layers
    kda = {whole(place) for place in linear.items("kda_layers", MOST_LAYERS)}
    return [Mixer.KIMI_DELTA if index + 1 in kda else Mixer.FULL for index in range(layers)]


def minimax_text(config: Fields, layers: int) -> Mixers:
    """`attn_type_list` (1: full), or `layer_types` in the converted checkpoints."""
    names = {"full_attention": Mixer.FULL, "linear_attention": Mixer.LINEAR}
    listed = named(config, "layer_types", layers, names)
    if listed is not None:
        return listed
    flags = layer_integers(config, "attn_type_list", layers, 0, 1)
    return [Mixer.FULL if flag else Mixer.LINEAR for flag in flags]
