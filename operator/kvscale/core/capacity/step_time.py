"""The step time of a model on an engine's devices: the coefficients of `core.capacity.roofline`.

Parallelism. Tensor parallelism divides weights, FLOPs and KV, except what each rank holds whole.
Pipeline stages run one after the other, each on its share of the batch (vLLM keeps as many
batches in flight as there are stages), so a token still waits for every stage: stages divide the
tokens and the KV of a step, not the weights.

What is left out: compute faster than bf16 (fp8 and fp4 GEMMs are not credited), the bytes that
all-reduces move (only their latency counts), and KV writes.
"""

from functools import lru_cache

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.device import Device
from kvscale.core.capacity.roofline import SparseWeights, StepTime, chunk_pairs
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.dtypes import KV_DTYPES, kv_dtype
from kvscale.core.model.shape import ModelShape

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
    """The coefficients for a model on an engine's devices, or why there are none."""
    if not device.bandwidth_bytes_per_second or not device.flops_per_second:
        lacking = "memory bandwidth" if device.flops_per_second else "bf16 peak"
        return Refusal(
            "DeviceSpeedUnknown",
            "targets[].devices.product",
            f"no {lacking} is known of {device.product or 'the device'}, so there is no step time;"
            " name a product of the device table",
        )
    kv_name = shape.kv_cache_dtype if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype
    kv = kv_dtype(kv_name)
    if kv is None:
        return Refusal(
            "UnknownKvCacheDtype",
            "--kv-cache-dtype",
            f"{kv_name!r} has no known size; use one of auto, {', '.join(KV_DTYPES)}",
        )
    tensor, stages = engine.tensor_parallel, engine.pipeline_parallel
    bandwidth = device.bandwidth_bytes_per_second * MEMORY_EFFICIENCY
    peak = device.flops_per_second * COMPUTE_EFFICIENCY

    dense = flops_token = 0.0
    sparse = []
    for group in shape.weight_groups:
        ranks = tensor if group.split_by_tensor_parallel else 1
        parameters = group.parameters / ranks
        seconds = parameters * group.bits_per_parameter_milli / 8000 / bandwidth
        share = group.touched_share_milli / 1000
        flops_token += 2 * parameters * share
        if share < 1:
            sparse.append(SparseWeights(seconds, 1 - share))
        else:
            dense += seconds

    kv_bytes = flops_pair = 0.0
    for layers in shape.layer_groups:
        width = layers.head_dim_k + layers.head_dim_v
        heads = max(1, layers.kv_heads // tensor)
        side_bytes = kv.side_bytes(layers.head_dim_k) + kv.side_bytes(layers.head_dim_v)
        kv_bytes += layers.layers * heads * side_bytes
        # Scores and weighted sum, two FLOPs per element each. MLA keeps one latent: both read it.
        attended = width if layers.head_dim_v else 2 * layers.head_dim_k
        flops_pair += layers.layers * 2 * (shape.attention_heads / tensor) * attended

    fixed = STEP_OVERHEAD_SECONDS + LAYER_OVERHEAD_SECONDS * shape.layers
    if tensor > 1:
        fixed += 2 * ALL_REDUCE_SECONDS * shape.layers
    return StepTime(
        fixed=fixed,
        dense=dense,
        sparse=tuple(sparse),
        kv_token=kv_bytes / bandwidth / stages,
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
    """Seconds of a prompt alone on the engine, in chunks of its token budget.

    A budget that the engine configuration leaves open is taken as one chunk.
    """
    model = step_time(shape, engine, device)
    if isinstance(model, Refusal):
        return model
    return model.prefill_seconds(prompt_tokens, engine.max_num_batched_tokens)
