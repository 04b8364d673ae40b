"""What a device cannot run in vLLM: number formats, quantised weights, sparse MLA.

| cannot run | below, or where | source (vllm v0.32.0) |
|---|---|---|
| weights in a quantised format | `MINIMA` | get_min_capability of quantization/*.py |
| bfloat16 | 8.0 | platforms/cuda.py, check_if_supports_dtype |
| float16 for Gemma 2 and 3, GLM-4 | everywhere | config/model.py |
| sparse MLA | neither 9.x, 10.x nor, from 0.24 on, 12.x | v1/attention/backends/mla/*sparse*.py |
"""

from kvscale.core.devices.compute_capability import Capability, capability_of
from kvscale.core.engines.versions import Version
from kvscale.core.engines.vllm.releases import lacks
from kvscale.core.engines.vllm.start import Start
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.model.dtypes import canonical
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

BFLOAT16: Capability = (8, 0)

MINIMA: dict[str, tuple[tuple[Version, Capability], ...]] = {
    "fp8": (((0, 14, 1), (7, 5)), ((0, 8, 0), (8, 0))),
    "awq": (((0, 8, 0), (7, 5)),),
    "gptq": (((0, 24, 0), (7, 5)), ((0, 8, 0), (6, 0))),
    "compressed-tensors": (((0, 8, 0), (7, 5)),),
    "modelopt": (((0, 27, 0), (8, 0)), ((0, 8, 0), (8, 9))),
    "modelopt-fp4": (((0, 14, 1), (7, 5)), ((0, 9, 0), (8, 0)), ((0, 8, 0), (10, 0))),
    "mxfp4": (((0, 8, 0), (8, 0)),),
    "bitsandbytes": (((0, 8, 0), (7, 0)),),
}
"""Least compute capability of each format, newest release first. compressed-tensors has it from
its schemes, GPTQ from Marlin, of which none is for less."""

NO_FLOAT16 = frozenset({
    "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration",
    "Glm4ForCausalLM",
})  # fmt: skip
"""Architectures of config/model.py, _FLOAT16_NOT_SUPPORTED_MODELS."""


def _format(start: Start) -> str:
    name = start.shape.quantization or canonical_method(start.engine.quantization or "")
    if name != "modelopt":
        return name
    four_bits = any(
        group.quantizable and group.bits_per_parameter_milli < 8_000  # noqa: PLR2004 - 8 bits
        for group in start.shape.weight_groups
    )
    return "modelopt-fp4" if four_bits else name


def weight_format(start: Start) -> Refusal | None:
    """A device older than the kernels of the checkpoint's format.

    vllm v0.32.0 config/vllm.py, get_quantization_config.
    """
    name, cap = _format(start), start.capability
    if not name or cap is None:
        return None
    rows = MINIMA.get(name, ())
    least = next((need for since, need in rows if not lacks(start.rules.version, since)), cap)
    if cap >= least:
        return None
    return Refusal(
        "UnsupportedQuantization",
        "quantization_config.quant_method",
        f"the checkpoint is in {name}, whose kernels need compute capability "
        f"{least[0]}.{least[1]}; the device has {start.sm}. Take a newer device or another "
        "checkpoint",
    )


def automatic_dtype(shape: ModelShape, capability: str) -> str:
    """Format of the activations under `--dtype auto`.

    A device without bfloat16 takes float16, which costs the same, or float32 for the models that
    float16 is too coarse for (vllm v0.32.0 config/model.py, _resolve_auto_dtype).

    Args:
        shape: the model.
        capability: of the device ("7.5"); "" if not known.
    """
    if shape.architecture not in NO_FLOAT16 or shape.dtype != "bfloat16":
        return shape.dtype
    found = capability_of(capability)
    return "float32" if found is not None and found < BFLOAT16 else shape.dtype


def coarse_activations(start: Start) -> Refusal | None:
    """float16 that the user asks for, for a model that it is too coarse for (from 0.9.1 on)."""
    name = start.shape.architecture
    stated = canonical(start.engine.dtype) == "float16"
    if not stated or name not in NO_FLOAT16 or lacks(start.rules.version, (0, 9, 1)):
        return None
    return Refusal(
        "InvalidDtype",
        "--dtype",
        f"--dtype is {start.engine.dtype}, which vLLM does not serve {name} in: use bfloat16 or "
        "float32",
    )


def activations(start: Start) -> Refusal | None:
    """bfloat16 that the user asks for, on a device without it (`auto` becomes float16 there)."""
    stated = canonical(start.engine.dtype) == "bfloat16"
    if not stated or start.capability is None or start.capability >= BFLOAT16:
        return None
    return Refusal(
        "InvalidDtype",
        "--dtype",
        f"--dtype is bfloat16, which needs compute capability 8.0; the device has {start.sm}. "
        "Use float16",
    )


def sparse_latents(start: Start) -> Refusal | None:
    """Sparse MLA on a device without a kernel for it."""
    if not start.sparse or start.capability is None:
        return None
    majors = {9, 10} if lacks(start.rules.version, (0, 24, 0)) else {9, 10, 12}
    if start.capability[0] in majors:
        return None
    return Refusal(
        "UnsupportedDevice",
        "architectures",
        f"{start.shape.architecture or 'the model'} has sparse MLA, for which vLLM "
        f"{start.rules.label} has no kernel on compute capability {start.sm}; take a device of "
        + " or ".join(f"{major}.x" for major in sorted(majors)),
    )


RULES = (weight_format, activations, coarse_activations, sparse_latents)
