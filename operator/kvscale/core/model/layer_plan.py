"""What each layer of a model mixes its tokens with: attention of some kind, a state, or nothing.

A config says it in one of many ways: a list with a name per layer, a pattern, an interval, a pair
of keys. Each reading here gives one `Mixer` per layer. Sources: vllm v0.32.0
model_executor/models of the architecture named, and the defaults of its configuration class in
transformers v4.57.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from kvscale.core.model.fields import Fields, Refused, shown, whole

MOST_LAYERS = 512
"""Four times the deepest model known (Llama-3.1-405B: 126); bounds the work on a bad config."""


class Mixer(StrEnum):
    """How a layer looks back."""

    FULL = "full attention"
    SLIDING = "sliding window"
    CHUNKED = "chunked local attention"
    MAMBA1 = "Mamba1"
    MAMBA2 = "Mamba2"
    GATED_DELTA = "gated delta net"
    KIMI_DELTA = "Kimi delta attention"
    LINEAR = "linear attention"
    CONVOLUTION = "short convolution"
    BOTH = "Mamba2 and full attention"
    SHARED = "attention over an earlier layer's cache"
    CROSSED = "full attention and attention to an encoder"
    NONE = "none"


LayerPlan = Sequence[Mixer]
Reading = Callable[[Fields, int], LayerPlan]

_ATTENTION = {"full_attention": Mixer.FULL, "sliding_attention": Mixer.SLIDING}
"""Names in `layer_types` of models of attention alone (transformers configuration_utils.py)."""

_HYBRID = {
    "full_attention": Mixer.FULL,
    "attention": Mixer.FULL,
    "mamba": Mixer.MAMBA2,
    "conv": Mixer.CONVOLUTION,
    "hybrid": Mixer.BOTH,
}
"""Names in `layer_types` or `layers_block_type` of Granite 4, Zamba 2 and LFM 2."""


def unsupported(field: str, kind: str) -> Refused:
    """The refusal of a layer kind without a rule."""
    return Refused(
        "UnsupportedLayerKind",
        field,
        f"{field} shows layers of kind {kind}, whose KV cache has no rule here for this "
        "architecture. Declare the layers by a model.shape of your own, or let a running engine "
        "report its ceiling",
    )


def _too_short(field: str, items: int, layers: int) -> Refused:
    return Refused(
        "InvalidConfig", field, f"{field} has {items} items for {layers} layers; give one for each"
    )


def _named(
    config: Fields, key: str, layers: int, names: dict[str, Mixer] = _ATTENTION
) -> LayerPlan | None:
    """The list of names under a key, read; None where there is none."""
    listed = config.items(key, 2 * MOST_LAYERS)
    if not listed:
        return None
    field = config.path + key
    plan = []
    # A list may go on with the layers of a draft.
    for position, name in enumerate(listed[:layers]):
        if not isinstance(name, str):
            raise Refused(
                "InvalidConfig",
                field,
                f"{field}[{position}] is {shown(name)}; it must be a string",
            )
        mixer = names.get(name)
        if mixer is None:
            raise unsupported(field, name[:60])
        plan.append(mixer)
    if len(plan) < layers:
        raise _too_short(field, len(plan), layers)
    return plan


def _every(config: Fields, key: str, layers: int, default: int) -> LayerPlan:
    """A full layer at every n-th place, sliding windows between; 0: no full layer."""
    interval = config.integer(key, 0, MOST_LAYERS, default=default)
    return [
        Mixer.FULL if interval and (index + 1) % interval == 0 else Mixer.SLIDING
        for index in range(layers)
    ]


def _patterned(default: int) -> Reading:
    """Windows with a full layer at every n-th place: Gemma 2 and 3, Cohere 2, OLMo 3."""

    def read(config: Fields, layers: int) -> LayerPlan:
        named = _named(config, "layer_types", layers)
        return named or _every(config, "sliding_window_pattern", layers, default)

    return read


def _gpt_oss(_config: Fields, layers: int) -> LayerPlan:
    """Windows at even places, whatever `layer_types` says (gpt_oss.py, `layer_idx % 2`)."""
    return [Mixer.FULL if index % 2 else Mixer.SLIDING for index in range(layers)]


def _step(config: Fields, layers: int) -> LayerPlan:
    """`layer_types`, else windows at even places (step3p5.py)."""
    return _named(config, "layer_types", layers) or _gpt_oss(config, layers)


def _exaone(config: Fields, layers: int) -> LayerPlan:
    """`layer_types`, else `sliding_window_pattern`: "LLLG", or the distance of full layers."""
    named = _named(config, "layer_types", layers)
    if named is not None:
        return named
    pattern = config.data.get("sliding_window_pattern")
    if not config.has("sliding_window") or pattern is None:
        return [Mixer.FULL] * layers
    if isinstance(pattern, str) and 0 < len(pattern) <= MOST_LAYERS:
        windows = [pattern[index % len(pattern)] == "L" for index in range(layers - 1)]
        # The last layer looks at all, whatever its letter.
        return [Mixer.SLIDING if window else Mixer.FULL for window in (*windows, False)]
    return _every(config, "sliding_window_pattern", layers, 4)


def _llama4(config: Fields, layers: int) -> LayerPlan:
    """Local chunks, but every fourth layer, which has no rotation, looks at all (llama4.py)."""
    if not config.has("attention_chunk_size"):
        return [Mixer.FULL] * layers
    rotated = config.items("no_rope_layers", MOST_LAYERS)
    interval = config.integer("no_rope_layer_interval", 1, MOST_LAYERS, default=4)
    if len(rotated) < layers:
        rotated = [(index + 1) % interval != 0 for index in range(layers)]
    return [Mixer.CHUNKED if flag else Mixer.FULL for flag in rotated[:layers]]


def _mimo(config: Fields, layers: int) -> LayerPlan:
    """`hybrid_layer_pattern`: 1 for a window, 0 for full attention (mimo_v2.py)."""
    pattern = config.items("hybrid_layer_pattern", 2 * MOST_LAYERS)
    if len(pattern) < layers:
        raise _too_short(f"{config.path}hybrid_layer_pattern", len(pattern), layers)
    return [Mixer.SLIDING if flag == 1 else Mixer.FULL for flag in pattern[:layers]]


_NEMOTRON = {"M": Mixer.MAMBA2, "*": Mixer.FULL, "-": Mixer.NONE, "E": Mixer.NONE}
_NEMOTRON_NAMES = {
    "mamba": Mixer.MAMBA2, "attention": Mixer.FULL, "mlp": Mixer.NONE, "moe": Mixer.NONE,
}  # fmt: skip


def _nemotron_h(config: Fields, layers: int) -> LayerPlan:
    """One letter per layer: M a state, * attention, - and E a feed-forward (nemotron_h.py)."""
    named = _named(config, "layers_block_type", layers, _NEMOTRON_NAMES)
    if named is not None:
        return named
    pattern = config.text("hybrid_override_pattern")
    field = f"{config.path}hybrid_override_pattern"
    if len(pattern) < layers:
        raise _too_short(field, len(pattern), layers)
    unknown = next((letter for letter in pattern[:layers] if letter not in _NEMOTRON), None)
    if unknown is not None:
        raise unsupported(field, repr(unknown))
    return [_NEMOTRON[letter] for letter in pattern[:layers]]


def _gated_delta(config: Fields, layers: int) -> LayerPlan:
    """`layer_types`, else full attention at every n-th place (qwen3_next.py)."""
    names = {"full_attention": Mixer.FULL, "linear_attention": Mixer.GATED_DELTA}
    named = _named(config, "layer_types", layers, names)
    if named is not None:
        return named
    interval = config.integer("full_attention_interval", 1, MOST_LAYERS, default=4)
    return [Mixer.GATED_DELTA if (index + 1) % interval else Mixer.FULL for index in range(layers)]


def _jamba(config: Fields, layers: int) -> LayerPlan:
    """Attention at one place of each period, Mamba elsewhere (transformers, JambaConfig)."""
    period = config.integer("attn_layer_period", 1, MOST_LAYERS, default=8)
    offset = config.integer("attn_layer_offset", 0, MOST_LAYERS, default=4)
    return [Mixer.FULL if index % period == offset else Mixer.MAMBA1 for index in range(layers)]


def _at_places(config: Fields, key: str, layers: int, other: Mixer) -> LayerPlan:
    places = {whole(place) for place in config.items(key, MOST_LAYERS)}
    return [Mixer.FULL if index in places else other for index in range(layers)]


def _bamba(config: Fields, layers: int) -> LayerPlan:
    return _at_places(config, "attn_layer_indices", layers, Mixer.MAMBA2)


def _states_but(config: Fields, layers: int) -> LayerPlan:
    """Granite 4 names its layers; in Zamba 2 the "hybrid" ones attend besides (zamba2.py)."""
    for key in ("layer_types", "layers_block_type"):
        named = _named(config, key, layers, _HYBRID)
        if named is not None:
            return named
    return [Mixer.MAMBA2] * layers


def _lfm(config: Fields, layers: int) -> LayerPlan:
    named = _named(config, "layer_types", layers, _HYBRID)
    return named or _at_places(config, "full_attn_idxs", layers, Mixer.CONVOLUTION)


def _kimi_linear(config: Fields, layers: int) -> LayerPlan:
    """Places of states in `linear_attn_config`, counted from 1 (transformers_utils/configs)."""
    linear = config.child("linear_attn_config")
    if linear is None:
        return [Mixer.FULL] * layers
    kda = {whole(place) for place in linear.items("kda_layers", MOST_LAYERS)}
    return [Mixer.KIMI_DELTA if index + 1 in kda else Mixer.FULL for index in range(layers)]


def _minimax_text(config: Fields, layers: int) -> LayerPlan:
    """`attn_type_list` (1: full), or `layer_types` in the converted checkpoints."""
    names = {"full_attention": Mixer.FULL, "linear_attention": Mixer.LINEAR}
    named = _named(config, "layer_types", layers, names)
    if named is not None:
        return named
    kinds = config.items("attn_type_list", MOST_LAYERS)
    if len(kinds) < layers:
        raise _too_short(f"{config.path}attn_type_list", len(kinds), layers)
    return [Mixer.FULL if kind == 1 else Mixer.LINEAR for kind in kinds[:layers]]


def _shared_tail(config: Fields, layers: int) -> LayerPlan:
    """The last layers attend over the cache of an earlier one (gemma3n.py, gemma4.py)."""
    own = layers - config.integer("num_kv_shared_layers", 0, layers, default=0)
    plan = _patterned(5)(config, layers)
    return [mixer if index < own else Mixer.SHARED for index, mixer in enumerate(plan)]


def _only(mixer: Mixer) -> Reading:
    def read(_config: Fields, layers: int) -> LayerPlan:
        return [mixer] * layers

    return read


def _named_or_alike(config: Fields, layers: int) -> LayerPlan:
    """`layer_types`, else alike throughout: windows where the config sets one."""
    named = _named(config, "layer_types", layers)
    if named is not None:
        return named
    return [Mixer.SLIDING if config.data.get("sliding_window") else Mixer.FULL] * layers


READINGS: dict[str, Reading] = {
    "Gemma2ForCausalLM": _patterned(2),
    "Gemma3ForCausalLM": _patterned(6),
    "Gemma3ForConditionalGeneration": _patterned(6),
    "Gemma3nForCausalLM": _shared_tail,
    "Gemma3nForConditionalGeneration": _shared_tail,
    "Gemma4ForCausalLM": _shared_tail,
    "Gemma4ForConditionalGeneration": _shared_tail,
    "Cohere2ForCausalLM": _patterned(4),
    "Olmo3ForCausalLM": _patterned(4),
    "Exaone4ForCausalLM": _exaone,
    "GptOssForCausalLM": _gpt_oss,
    "Step3p5ForCausalLM": _step,
    "Step3p7FlashForCausalLM": _step,
    "Llama4ForCausalLM": _llama4,
    "Llama4ForConditionalGeneration": _llama4,
    "MiMoV2FlashForCausalLM": _mimo,
    "MiMoV2ForCausalLM": _mimo,
    "NemotronHForCausalLM": _nemotron_h,
    "Qwen3NextForCausalLM": _gated_delta,
    "Qwen3_5ForCausalLM": _gated_delta,
    "Qwen3_5MoeForCausalLM": _gated_delta,
    "Qwen3_5ForConditionalGeneration": _gated_delta,
    "Qwen3_5MoeForConditionalGeneration": _gated_delta,
    "JambaForCausalLM": _jamba,
    "BambaForCausalLM": _bamba,
    "FalconH1ForCausalLM": _only(Mixer.BOTH),
    "GraniteMoeHybridForCausalLM": _states_but,
    "Zamba2ForCausalLM": _states_but,
    "Lfm2ForCausalLM": _lfm,
    "Lfm2MoeForCausalLM": _lfm,
    "KimiLinearForCausalLM": _kimi_linear,
    "MiniMaxText01ForCausalLM": _minimax_text,
    "MiniMaxM1ForCausalLM": _minimax_text,
    "MiniMaxForCausalLM": _minimax_text,
    # Their `layer_types` name the selection of tokens, which takes an indexer and no other cache.
    "DeepseekV32ForCausalLM": _only(Mixer.FULL),
    "GlmMoeDsaForCausalLM": _only(Mixer.FULL),
    "OlmoHybridForCausalLM": _gated_delta,
    "WhisperForConditionalGeneration": _only(Mixer.CROSSED),
    "MambaForCausalLM": _only(Mixer.MAMBA1),
    "FalconMambaForCausalLM": _only(Mixer.MAMBA1),
    "Mamba2ForCausalLM": _only(Mixer.MAMBA2),
}
"""Architectures whose layers are not alike, or not attention."""


def layer_plan(config: Fields, architecture: str, layers: int) -> LayerPlan:
    """The mixer of each layer.

    Args:
        config: of the text model.
        architecture: `architectures[0]`.
        layers: how many there are, at most `MOST_LAYERS`.

    Raises:
        Refused: a kind without a rule, by its name and the key that shows it.
    """
    return READINGS.get(architecture, _named_or_alike)(config, layers)
