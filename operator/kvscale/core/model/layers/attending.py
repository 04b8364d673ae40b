"""Which layers of attention models see all tokens, and which a window or a chunk.

Sources: vllm v0.32.0 model_executor/models of the architecture named, and the defaults of its
configuration class in transformers (v4.57; Gemma 4: v5.24).
"""

from kvscale.core.model.bounds import MOST_LAYERS
from kvscale.core.model.fields import Fields
from kvscale.core.model.layers.lists import layer_integers
from kvscale.core.model.layers.mixer import Mixer, Mixers, Reading, named
from kvscale.core.model.layers.searched import searched_attends


def _every(config: Fields, key: str, layers: int, default: int) -> Mixers:
    """A full layer at every n-th place, sliding windows between; 0: no full layer."""
    interval = config.integer(key, 0, MOST_LAYERS, default=default)
    return [
        Mixer.FULL if interval and (index + 1) % interval == 0 else Mixer.SLIDING
        for index in range(layers)
    ]


def patterned(default: int) -> Reading:
    """Windows with a full layer at every n-th place: Gemma 2 and 3, Cohere 2, OLMo 3."""

    def read(config: Fields, layers: int) -> Mixers:
        listed = named(config, "layer_types", layers)
        return listed or _every(config, "sliding_window_pattern", layers, default)

    return read


def gpt_oss(_config: Fields, layers: int) -> Mixers:
    """Windows at even places, whatever `layer_types` says (gpt_oss.py, `layer_idx % 2`)."""
    return [Mixer.FULL if index % 2 else Mixer.SLIDING for index in range(layers)]


def step(config: Fields, layers: int) -> Mixers:
    """`layer_types`, else windows at even places (step3p5.py)."""
    return named(config, "layer_types", layers) or gpt_oss(config, layers)


def exaone(config: Fields, layers: int) -> Mixers:
    """`layer_types`, else `sliding_window_pattern`: "LLLG", or the distance of full layers."""
    listed = named(config, "layer_types", layers)
    if listed is not None:
        return listed
    pattern = config.data.get("sliding_window_pattern")
    if not config.has("sliding_window") or pattern is None:
        return [Mixer.FULL] * layers
    if isinstance(pattern, str) and 0 < len(pattern) <= MOST_LAYERS:
        windows = [pattern[index % len(pattern)] == "L" for index in range(layers - 1)]
        # The last layer looks at all, whatever its letter.
        return [Mixer.SLIDING if window else Mixer.FULL for window in (*windows, False)]
    return _every(config, "sliding_window_pattern", layers, 4)


def llama4(config: Fields, layers: int) -> Mixers:
    """Local chunks, but every fourth layer, which has no rotation, looks at all (llama4.py)."""
    if not config.has("attention_chunk_size"):
        return [Mixer.FULL] * layers
    rotated = config.items("no_rope_layers", MOST_LAYERS)
    interval = config.integer("no_rope_layer_interval", 1, MOST_LAYERS, default=4)
    if len(rotated) < layers:
        rotated = [(index + 1) % interval != 0 for index in range(layers)]
    return [Mixer.CHUNKED if flag else Mixer.FULL for flag in rotated[:layers]]


def mimo(config: Fields, layers: int) -> Mixers:
    """`hybrid_layer_pattern`: 1 for a window, 0 for full attention (mimo_v2.py)."""
    flags = layer_integers(config, "hybrid_layer_pattern", layers, 0, 1)
    return [Mixer.SLIDING if flag else Mixer.FULL for flag in flags]


def _sharing(config: Fields, mixers: Mixers) -> Mixers:
    """The last `num_kv_shared_layers` attend over the cache of an earlier layer of their kind."""
    layers = len(mixers)
    own = layers - config.integer("num_kv_shared_layers", 0, layers, default=0)
    shared = {Mixer.FULL: Mixer.SHARED, Mixer.SLIDING: Mixer.SHARED_SLIDING}
    return [*mixers[:own], *(shared[mixer] for mixer in mixers[own:])]


def gemma3n(config: Fields, layers: int) -> Mixers:
    """Four windows to a full layer, and a tail that shares caches (gemma3n.py)."""
    return _sharing(config, patterned(5)(config, layers))


def gemma4(config: Fields, layers: int) -> Mixers:
    """Five windows to a full layer, the last one always full, and a tail that shares caches.

    vllm v0.32.0 model_executor/models/gemma4.py; transformers v5.24 configuration_gemma4.py.
    """
    listed = named(config, "layer_types", layers)
    if listed is None:
        listed = [*_every(config, "sliding_window_pattern", layers, 6)[:-1], Mixer.FULL]
    return _sharing(config, listed)


def decilm(config: Fields, layers: int) -> Mixers:
    """A search left some layers without attention (nemotron_nas.py)."""
    return [Mixer.FULL if one else Mixer.NONE for one in searched_attends(config, layers)]


def named_or_alike(config: Fields, layers: int) -> Mixers:
    """`layer_types`, else alike throughout: windows where the config sets one."""
    listed = named(config, "layer_types", layers)
    if listed is not None:
        return listed
    return [Mixer.SLIDING if config.data.get("sliding_window") else Mixer.FULL] * layers
