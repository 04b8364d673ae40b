"""Layers that predict several tokens ahead: part of the pool where speculation uses them.

A checkpoint may bring layers for multi-token prediction (DeepSeek-V3, GLM, Qwen3.5, MiMo). An
engine loads them only for speculation by them; they are then ordinary layers of the last pipeline
stage, with KV in the same pool (vllm v0.32.0 model_executor/models/deepseek_mtp.py). An EAGLE head
is a checkpoint of its own: one layer, in the published ones with the heads of its target
(llama_eagle.py), as which it is counted here. A draft model is in `vllm.draft_model`.
"""

from dataclasses import replace

from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.drafting import EAGLE, EAGLE3, PREDICTION
from kvscale.core.model.layers.compressed import INDEX_STORAGE, LATENT_STORAGE
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup

_KEPT = (LayerKind.FULL_ATTENTION, LayerKind.MLA, LayerKind.SPARSE_INDEXER)


def draft_layers(shape: ModelShape, engine: EngineConfig) -> int:
    """Layers with a cache that the engine drafts with."""
    if engine.speculative_method in EAGLE:
        return 1
    return shape.draft_layers if engine.speculative_method.endswith(PREDICTION) else 0


def with_drafts(shape: ModelShape, engine: EngineConfig) -> ModelShape:
    """The model with the layers that the engine drafts with."""
    drafts = draft_layers(shape, engine)
    if not drafts:
        return shape
    places = tuple(range(shape.layers, shape.layers + drafts))
    return replace(
        shape,
        layer_groups=tuple(_longer(group, places) for group in shape.layer_groups),
        weight_groups=(*shape.weight_groups, *_weights(shape, drafts), *_own_head(shape, engine)),
        depth=shape.layers,
    )


def _longer(group: LayerGroup, places: tuple[int, ...]) -> LayerGroup:
    # DeepSeek-V4 drafts by a layer with the window alone (compress ratio 0).
    window = group.kind is LayerKind.SLIDING_WINDOW_MLA and group.storage == LATENT_STORAGE
    if not window and (group.kind not in _KEPT or group.storage == INDEX_STORAGE):
        return group
    own = group.positions or range(group.layers)
    return replace(group, layers=group.layers + len(places), positions=(*own, *places))


EAGLE3_VOCABULARY = 32_000
"""Tokens that the published EAGLE3 heads propose from (yuhuili/EAGLE3-LLaMA3.1-Instruct-8B)."""


def _own_head(shape: ModelShape, engine: EngineConfig) -> list[WeightGroup]:
    """What an EAGLE3 head has beside its layer: three states joined, a wider input, an output.

    vllm v0.32.0 model_executor/models/llama_eagle3.py: the projection takes three hidden states
    instead of two, Q, K and V take two instead of one, and the head's vocabulary is its own.
    """
    if engine.speculative_method != EAGLE3:
        return []
    hidden = shape.hidden_size
    attention = next((g for g in shape.layer_groups if g.kind is LayerKind.FULL_ATTENTION), None)
    rows = 0
    if attention is not None:
        heads = shape.attention_heads + attention.kv_heads
        rows = heads * attention.head_dim_k + attention.kv_heads * attention.head_dim_v
    plain = _plain_bits(shape)
    return [
        WeightGroup(
            "draftProjection", hidden * hidden, plain, split_by_tensor_parallel=False, stage="last"
        ),
        WeightGroup("draftAttention", rows * hidden, plain, stage="last"),
        WeightGroup("draftHead", EAGLE3_VOCABULARY * hidden, plain, stage="last"),
    ]


def _weights(shape: ModelShape, drafts: int) -> list[WeightGroup]:
    """A prediction layer is as heavy as the last one, and has a matrix that joins two inputs."""
    last = shape.layers - 1
    found = []
    for group in shape.weight_groups:
        held = group.layer_positions or range(*(group.layer_span or (0, shape.layers)))
        if group.stage == "all" and last in held:
            share = group.parameters * drafts // len(held)
            found.append(
                replace(group, parameters=share, stage="last", layer_span=None, layer_positions=())
            )
    joined = 2 * shape.hidden_size * shape.hidden_size * drafts
    return [
        *found,
        WeightGroup(
            "draftProjection",
            joined,
            _plain_bits(shape),
            split_by_tensor_parallel=False,
            stage="last",
        ),
    ]


def _plain_bits(shape: ModelShape) -> int:
    """Thousandths of a bit per parameter that is not quantised: those of the embedding."""
    first = (g.bits_per_parameter_milli for g in shape.weight_groups if g.stage == "first")
    return next(first, 0) or 16_000
