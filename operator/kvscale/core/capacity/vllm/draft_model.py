"""A draft model of its own: a second, smaller model that proposes tokens for the first one.

vLLM loads it beside the model with the same tensor parallelism, in the model's dtype; its layers
keep KV in the same pool and are as long as the model's (vllm v0.32.0 config/speculative.py,
v1/worker/gpu/spec_decode/standalone_ar/speculator.py). With pipeline stages it does not start: the
drafter is built on the last one alone, where a model is built without its embedding.
"""

from dataclasses import replace

from kvscale.core.capacity.placement import check_heads
from kvscale.core.capacity.vllm.loading import loaded, stored_on
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.drafting import STANDALONE
from kvscale.core.model.fields import Refused
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, ModelShape
from kvscale.core.refusal import Refusal

_FIELD = "--speculative-config"


def draft_model(engine: EngineConfig) -> ModelShape | None:
    """The draft model; None where there is none, or none that the catalogue has."""
    if engine.speculative_method != STANDALONE or not engine.speculative_model:
        return None
    found = preset(engine.speculative_model)
    return None if isinstance(found, Refusal) else found


def with_draft_model(
    shape: ModelShape, draft: ModelShape, engine: EngineConfig, device: Device
) -> ModelShape:
    """The model with the layers and weights of its draft model.

    Raises:
        Refused: the two do not go together, or the draft cannot be split over the devices.
    """
    why = _unfit(shape, draft, engine)
    if why:
        raise Refused("InvalidSpeculation", _FIELD, f"the draft model {draft.name} {why}")
    if draft.vocabulary_size != shape.vocabulary_size:
        raise Refused(
            "InvalidSpeculation",
            _FIELD,
            f"the draft model {draft.name} has {draft.vocabulary_size} tokens in its vocabulary, "
            f"{shape.name or 'the model'} has {shape.vocabulary_size}; take a draft of the same "
            "family",
        )
    check_heads(draft, engine.tensor_parallel, f"the draft model {draft.name}")
    beside = loaded(
        stored_on(draft, device),
        replace(engine, quantization=None, dtype=shape.dtype),
        device.compute_capability,
    )
    return replace(
        shape,
        layer_groups=(*shape.layer_groups, *_layers(beside, shape.layers)),
        weight_groups=(
            *shape.weight_groups,
            *(
                replace(group, stage="last", layer_span=None, layer_positions=())
                for group in beside.weight_groups
            ),
        ),
        depth=shape.layers,
    )


def _unfit(shape: ModelShape, draft: ModelShape, engine: EngineConfig) -> str:
    """Why vLLM does not draft with that model; "" where it does."""
    if engine.pipeline_parallel > 1:
        return (
            "is built on the last pipeline stage alone, where it lacks its embedding: leave "
            "--pipeline-parallel-size at 1, or use eagle3 or ngram"
        )
    if draft.draft_layers:
        return (
            "brings prediction layers, for which vLLM takes it instead of the whole model: draft "
            "with a model that has none"
        )
    if draft.experts_per_token and not shape.experts_per_token:
        return "is a mixture of experts, which a dense model cannot draft with: take a dense one"
    return ""


def _layers(draft: ModelShape, first: int) -> list[LayerGroup]:
    """The draft's layers, behind the model's own."""
    return [
        replace(
            group,
            positions=tuple(first + at for at in group.positions or range(group.layers)),
        )
        for group in draft.layer_groups
    ]
