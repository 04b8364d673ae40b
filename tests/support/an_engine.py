"""An 8-billion model on an H100, for tests of the traffic's arithmetic."""

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.values import Band

SHAPE = ModelShape(
    name="an-8b-model",
    architecture="LlamaForCausalLM",
    hidden_size=4096,
    vocabulary_size=128_256,
    attention_heads=32,
    layer_groups=(LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),),
    weight_groups=(WeightGroup("all", 8_030_000_000, 16_000),),
    max_position_embeddings=131_072,
)
ENGINE = EngineConfig(max_model_len=32_768, max_num_seqs=256, max_num_batched_tokens=8192)
H100 = Device(
    "NVIDIA-H100-80GB-HBM3",
    85_017_755_443,
    bandwidth_bytes_per_second=3_350_000_000_000,
    flops_per_second=989_000_000_000_000,
)
CAPACITY = EngineCapacity(
    block_tokens=16,
    bytes_per_block=2_097_152,
    weight_bytes_per_device=16_060_000_000,
    kv_memory_bytes=Band(50 * 2**30, 54 * 2**30, 58 * 2**30),
    kv_blocks=Band(25_601, 27_649, 29_697),
    reserved_blocks=1,
    kv_cache_size_tokens=Band(409_600, 442_368, 475_136),
    max_concurrency_milli=Band(12_500, 13_500, 14_500),
    max_model_len=32_768,
    max_num_seqs=256,
    max_num_batched_tokens=8192,
    devices=1,
)
