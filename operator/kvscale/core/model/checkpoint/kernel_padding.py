"""What the engine's kernels add to the experts that they store.

A kernel works on tiles: the width of an expert's share on one rank, and the width of the model, are
rounded up to them, and the memory is allocated so. Which kernel runs depends on the device.

Source: vllm v0.32.0 model_executor/layers/fused_moe/oracle/mxfp4.py
(`mxfp4_round_up_hidden_size_and_intermediate_size` and the order of the backends).
"""

from dataclasses import replace

from kvscale.core.model.shape import Padding, WeightGroup

_TILES = {8: (128, 256), 9: (128, 128), 10: (128, 256), 11: (128, 256), 12: (128, 256)}
"""By the device's major compute capability: what an expert's width and the model's are rounded to.

Marlin's tiles before Hopper and on consumer Blackwell, FlashInfer's CUTLASS on Hopper,
TensorRT-LLM's on Blackwell.
"""


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def mxfp4_experts(group: WeightGroup, hidden: int) -> WeightGroup:
    """Experts in mxfp4, with what they are stored as on each generation of devices.

    Args:
        group: as the checkpoint has it.
        hidden: width of the model.
    """
    if group.name != "experts":
        return group

    # The biases of the expert's own width have none of the model's.
    has_hidden = group.quantizable or group.units is None

    def padding(major: int, tile: int, wide: int) -> Padding:
        scaled = group.parameters // hidden * _rounded_up(hidden, wide)
        return Padding(major, scaled if has_hidden else group.parameters, tile)

    return replace(group, padded=tuple(padding(major, *tiles) for major, tiles in _TILES.items()))


def halved_scale_groups(
    group: WeightGroup, _hidden: int, *, size: int, scale_bits: int, zero_bits: int = 0
) -> WeightGroup:
    """Experts of AWQ and GPTQ, whose scale groups shrink where a rank's share is no multiple.

    vllm v0.32.0 model_executor/layers/quantization/moe_wna16.py, which replaces Marlin there and,
    unlike it, keeps no zero points of a symmetric checkpoint.

    Args:
        group: as the checkpoint has it.
        size: parameters that share a scale and a zero point.
        scale_bits: bits of both.
        zero_bits: of those, the zero points of a symmetric checkpoint.
    """
    if group.name != "experts" or not group.quantizable:
        return group
    return replace(
        group,
        scale_group=size,
        scale_bits_milli=1000 * scale_bits,
        zero_bits_milli=1000 * zero_bits,
    )
