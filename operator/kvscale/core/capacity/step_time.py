"""The step time of a model on an engine's devices: the coefficients of `core.capacity.roofline`.

Parallelism. Tensor parallelism divides weights, FLOPs and KV, except what each rank holds whole.
Pipeline stages run one after the other, each on its share of the batch (vLLM keeps as many
batches in flight as there are stages), so a token still waits for every stage: stages divide the
tokens and the KV of a step, not the weights.

What is left out: compute faster than bf16 (fp8 and fp4 GEMMs are not credited), the bytes that
all-reduces move (only their latency counts), and KV writes.
"""

from functools import lru_cache

from kvscale.core.capacity.neutral import neutral
from kvscale.core.capacity.placement import group_bytes
from kvscale.core.capacity.placement import stages as pipeline_stages
from kvscale.core.capacity.roofline import SparseWeights, StepTime, chunk_pairs
from kvscale.core.capacity.vllm.settings import resolve
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import bytes_per_sequence, bytes_per_token
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.refusal import Refusal

__all__ = ["StepTime", "chunk_pairs", "prefill_seconds", "step_seconds", "step_time"]

MEMORY_EFFICIENCY = 0.8
"""Share of the nominal bandwidth that kernels reach.

`mem_bw_empirical_scaling_factor` in NVIDIA aiconfigurator, systems/*.yaml; BLIS (inference-sim,
hardware_config.json) has 0.72. The decode log of a mixture on a GB10 that the tests carry lies
within 30 % of the model at this value, from batch 1 to 49.
"""

COMPUTE_EFFICIENCY = 0.5
"""Share of the dense bf16 peak that prefill reaches.

Assumed: the lower of two public figures, 0.5 (LLMPerfOracle) and 0.65 (`mfuPrefill` in BLIS,
hardware_config.json), so that plans err on the slow side.
"""

STEP_OVERHEAD_SECONDS = 500e-6
"""Scheduling, sampling and launch of one step: `TOverheadMicros` in BLIS, hardware_config.json."""

LAYER_OVERHEAD_SECONDS = 20e-6
"""Launches of one layer: `perLayerOverhead` in BLIS, hardware_config.json."""

ALL_REDUCE_SECONDS = 20e-6
"""Latency of one all-reduce: `allReduceLatency` in BLIS, hardware_config.json. A layer has two."""


@lru_cache(maxsize=256)
def step_time(shape: ModelShape, engine: EngineConfig, device: Device) -> StepTime | Refusal:
    """The coefficients for a model on an engine's devices, or why there are none.

    A Refusal is DeviceSpeedUnknown, or one of a setting with which the engine would not start.
    """
    settings = resolve(shape, neutral(engine), device)
    if isinstance(settings, Refusal):
        return settings
    if not device.bandwidth_bytes_per_second or not device.flops_per_second:
        lacking = "memory bandwidth" if device.flops_per_second else "bf16 peak"
        return Refusal(
            "DeviceSpeedUnknown",
            "targets[].devices.product",
            f"no {lacking} is known of {device.product or 'the device'}, so there is no step time;"
            " name a product of the device table",
        )
    tensor, stages = engine.tensor_parallel, engine.pipeline_parallel
    bandwidth = device.bandwidth_bytes_per_second * MEMORY_EFFICIENCY
    peak = device.flops_per_second * COMPUTE_EFFICIENCY

    shape = settings.shape  # in the format that the engine loads it in
    layers = shape.layers
    # A token passes all stages, so what one rank of each of them holds, together.
    (all_layers,) = pipeline_stages(layers, 1)
    dense = flops_token = 0.0
    sparse = []
    for group in shape.weight_groups:
        if not group.touched_share_milli:
            continue
        held = group_bytes(
            group, layers, all_layers, tensor, engine.data_parallel,
            whole_experts=engine.expert_parallel,
        )  # fmt: skip
        touched = group.touched_share_milli / 1000
        # Experts that are split over data parallelism serve the tokens of all its engines, which
        # are taken to be as busy as this one.
        engines = engine.data_parallel if group.split_by_data_parallel else 1
        flops_token += 2 * engines * touched * held * 8000 / group.bits_per_parameter_milli
        if touched < 1:
            sparse.append(SparseWeights(held / bandwidth, (1 - touched) ** engines))
        else:
            dense += held / bandwidth

    flops_pair = 0.0
    for layer in shape.layer_groups:
        if layer.kind.recurrent or layer.kind is LayerKind.SPARSE_INDEXER:
            continue
        # Scores and weighted sum, two FLOPs per element each. MLA keeps one latent for both.
        elements = layer.head_dim_k + (layer.head_dim_v or layer.head_dim_k)
        flops = layer.layers * 2 * elements * shape.attention_heads / tensor
        if layer.window is None:
            flops_pair += flops / layer.tokens_per_entry
        else:
            flops_token += flops * layer.window

    fixed = STEP_OVERHEAD_SECONDS + LAYER_OVERHEAD_SECONDS * layers
    if tensor > 1:
        fixed += 2 * ALL_REDUCE_SECONDS * layers
    return StepTime(
        fixed=fixed,
        dense=dense,
        sparse=tuple(sparse),
        kv_token=bytes_per_token(shape.layer_groups, settings.cache) / bandwidth / stages,
        kv_sequence=bytes_per_sequence(shape.layer_groups, settings.cache) / bandwidth / stages,
        compute_token=flops_token / peak / stages,
        compute_pair=flops_pair / peak / stages,
        stages=stages,
    )


def step_seconds(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    *,
    decode_sequences: int,
    resident_tokens: int,
    prefill_tokens: int = 0,
) -> float | Refusal:
    """Seconds of one step; see `StepTime.seconds`."""
    model = step_time(shape, engine, device)
    if isinstance(model, Refusal):
        return model
    return model.seconds(
        decode_sequences=decode_sequences,
        resident_tokens=resident_tokens,
        prefill_tokens=prefill_tokens,
    )


def prefill_seconds(
    shape: ModelShape, engine: EngineConfig, device: Device, *, prompt_tokens: int
) -> float | Refusal:
    """Seconds of a prompt alone on the engine, in chunks of its token budget."""
    model = step_time(shape, engine, device)
    settings = resolve(shape, neutral(engine), device)
    if isinstance(model, Refusal):
        return model
    if isinstance(settings, Refusal):
        return settings
    return model.prefill_seconds(prompt_tokens, settings.max_num_batched_tokens)
