"""What a token costs an SGLang server, and what a recurrent state does.

Per token and layer, on one rank (sglang 0.5.23 srt/model_executor/pool_configurator.py): K and V
of the rank's heads; with MLA one latent, whole on every rank; for sparse attention the indexer's
key beside it. States are priced by srt/configs/mamba_utils.py, mamba_cache_per_req.
"""

from dataclasses import dataclass, replace

from kvscale.core.capacity.placement import Stage, stage_groups
from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.sglang.rules import SGLangRules
from kvscale.core.engines.versions import version_text
from kvscale.core.model.dtypes import KvDtype, canonical, kv_dtype
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape

_OWN_DTYPES = {
    # 4 bits and one scale of a byte per 16 elements.
    "fp4_e2m1": KvDtype("fp4_e2m1", 4_500),
    "nvfp4": KvDtype("nvfp4", 4_500),
    # 8 bits and one scale of a byte per 32 elements.
    "mxfp8": KvDtype("mxfp8", 8_250, latent=False),
}
HYBRID_FROM = (0, 5, 4)
"""First version with pools for recurrent states and for sparse attention."""

_PACKED = KvDtype("fp8_ds_mla", 8_000)
"""fp8 with scales and a bf16 rotated part, 656 bytes: how sparse attention stores its latent."""


def sglang_options(engine: EngineConfig) -> SGLangOptions:
    """The options of an SGLang engine; its defaults where it has none."""
    return engine.options if isinstance(engine.options, SGLangOptions) else SGLangOptions()


_FULL = frozenset({LayerKind.FULL_ATTENTION, LayerKind.MLA, LayerKind.SPARSE_INDEXER})
_WINDOWED = frozenset({LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL})


def sglang_kv(shape: ModelShape, engine: EngineConfig, capability: str) -> KvDtype:
    """How the server stores K and V.

    Sparse attention under `auto` is stored in fp8 on Blackwell (server_args.py from 0.5.4).

    Raises:
        Refused: `--kv-cache-dtype` is none whose size is known.
    """
    name = canonical(engine.kv_cache_dtype)
    sparse = any(group.kind is LayerKind.SPARSE_INDEXER for group in shape.layer_groups)
    latent = any(group.kind is LayerKind.MLA for group in shape.layer_groups)
    if name == "auto":
        blackwell = sparse and latent and compute_major(capability) == "10"
        name = "fp8_e4m3" if blackwell else canonical(shape.kv_cache_dtype)
    kv = _OWN_DTYPES.get(name) or kv_dtype(name)
    if kv is None or (latent and not kv.latent):
        known = ("auto", "bfloat16", "fp8_e4m3", "fp8_e5m2", *_OWN_DTYPES)
        raise Refused(
            "UnsupportedKvCacheDtype",
            "--kv-cache-dtype",
            f"--kv-cache-dtype is {name[:40]!r}, whose size is not known for this model; known "
            f"are {', '.join(known)}",
        )
    return kv


@dataclass(frozen=True, slots=True)
class Cells:
    """What one rank of a stage stores.

    Attributes:
        full: bytes per token of the layers that keep every token.
        window: bytes per token of the layers that have a pool of their own; 0 for none.
        window_tokens: of the widest window.
        state: bytes of one slot of recurrent states; 0 for none.
        groups: the layers of the stage that store anything, and what one token costs in all of
            them (of a state: what one slot does).
        cache: their format.
        attention_layers: layers that `full` covers.
    """

    full: int
    window: int
    window_tokens: int
    state: int
    groups: tuple[tuple[LayerGroup, int], ...]
    cache: CacheFormat
    attention_layers: int


def cells(
    shape: ModelShape, engine: EngineConfig, rules: SGLangRules, kv: KvDtype, stage: Stage
) -> Cells:
    """The cells of one rank of a stage.

    Raises:
        Refused: a kind of layer that SGLang's pools are not known for.
    """
    options = sglang_options(engine)
    separate = rules.window_pool(shape.architecture) and options.hybrid_swa
    sparse = any(g.kind is LayerKind.SPARSE_INDEXER and g.storage == "uint8"
                 for g in shape.layer_groups)  # fmt: skip
    packed = sparse and kv.name in {"fp8", "fp8_e4m3"} and rules.version >= (0, 5, 17)
    cache = CacheFormat(
        tensor_parallel=engine.tensor_parallel,
        kv=_PACKED if packed else kv,
        activations=shape.dtype,
        temporal=engine.mamba_ssm_cache_dtype,
    )
    full = window = window_tokens = state = attention = widest = 0
    found: list[tuple[LayerGroup, int]] = []
    groups = stage_groups(shape, stage)
    for group in groups:
        _check_known(group, rules)
        if group.kind.recurrent:
            slot = group.layers * RULES[group.kind].page_bytes(_fp32(group), 1, cache)
            state += slot
            found.append((group, slot))
            continue
        each = _token_bytes(group, cache, rules)
        widest = max(widest, each)
        layers = group.layers
        if group.kind is LayerKind.SPARSE_INDEXER and not rules.indexer_on_owners:
            layers = sum(g.layers for g in groups if g.kind is LayerKind.MLA) or layers
        found.append((group, layers * each))
        if group.kind in _WINDOWED and separate:
            window += layers * each
            window_tokens = max(window_tokens, group.window or 0)
        else:
            full += layers * each
            attention += 0 if group.kind is LayerKind.SPARSE_INDEXER else layers
    bare = stage.layers - attention
    if bare > 0 and not state and not window and attention:
        # Without a hybrid pool, layers that keep nothing are given room like the others.
        full += bare * widest
        attention += bare
    return Cells(full, window, window_tokens, state, tuple(found), cache, attention)


def _check_known(group: LayerGroup, rules: SGLangRules) -> None:
    """Pass a kind of layer that the version has pools for."""
    newer = group.kind.recurrent or group.kind is LayerKind.SPARSE_INDEXER
    if newer and rules.version < HYBRID_FROM:
        raise Refused(
            "UnsupportedLayerKind",
            "engine.version",
            f"engine.version is {rules.label}; SGLang has pools for layers of kind "
            f"{group.kind.value} from {version_text(HYBRID_FROM)} on. Correct engine.version",
        )


def _token_bytes(group: LayerGroup, cache: CacheFormat, rules: SGLangRules) -> int:
    if group.kind not in _FULL | _WINDOWED or group.tokens_per_entry > 1:
        raise Refused(
            "UnsupportedLayerKind",
            "layer_types",
            f"the model has layers of kind {group.kind.value}, whose pools in SGLang are not known "
            "here; read the size from the running server (sglang:max_total_num_tokens), or state "
            "targets[].engine.kvCacheMemoryBytes with vLLM",
        )
    if not rules.value_width_priced and group.head_dim_v:
        group = replace(group, head_dim_v=group.head_dim_k)
    return RULES[group.kind].page_bytes(group, 1, cache)


def _fp32(group: LayerGroup) -> LayerGroup:
    """Temporal states are fp32 where neither the model nor a flag says otherwise."""
    parts = tuple(
        replace(part, dtype=part.dtype or "float32")
        if part.temporal or group.kind is LayerKind.LINEAR_ATTENTION
        else part
        for part in group.state
    )
    return replace(group, state=parts)
