"""The model in the formats that vLLM loads and caches it in.

`--dtype`, `--quantization` and `--kv-cache-dtype`, with what the device's kernels make of them.
"""

from dataclasses import replace

from kvscale.core.devices.compute_capability import capability_of, compute_major
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.kernels import automatic_dtype
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.model.dtypes import BITS, KV_DTYPES, KvDtype, canonical, kv_dtype
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind, ModelShape


def stored_on(shape: ModelShape, device: Device) -> ModelShape:
    """The model with the padding that the kernels of that device's generation need."""
    if not any(group.padded for group in shape.weight_groups):
        return shape
    known = capability_of(device.compute_capability)
    major = None if known is None else known[0]
    groups = tuple(group.on_device(major) for group in shape.weight_groups)
    return replace(shape, weight_groups=groups)


def loaded(shape: ModelShape, engine: EngineConfig, capability: str) -> ModelShape:
    """The model as the engine loads it: `--dtype` and `--quantization` applied.

    Raises:
        Refused: a dtype that is none, or a quantisation that the checkpoint does not go with.
    """
    groups = shape.weight_groups
    dtype = canonical(engine.dtype)
    if dtype == "auto":
        dtype = automatic_dtype(shape, capability)
    elif dtype not in BITS:
        raise Refused(
            "InvalidDtype", "--dtype", f"--dtype is {engine.dtype[:40]!r}; use {', '.join(BITS)}"
        )
    if BITS.get(dtype) != BITS.get(shape.dtype):
        plain = BITS.get(shape.dtype)
        groups = tuple(
            replace(group, bits_per_parameter_milli=BITS[dtype])
            if group.bits_per_parameter_milli == plain
            else group
            for group in groups
        )
    wanted = canonical_method(engine.quantization or "")
    if wanted and not shape.quantization and shape.architecture:
        if wanted != "fp8":
            raise Refused(
                "UnsupportedQuantization",
                "--quantization",
                f"--quantization is {wanted[:40]!r} but the checkpoint is not quantised; only fp8 "
                "is known to be made while loading. Name the quantised checkpoint",
            )
        groups = tuple(
            replace(g, bits_per_parameter_milli=8_000) if g.quantizable else g for g in groups
        )
    elif wanted and shape.quantization and wanted != shape.quantization:
        raise Refused(
            "UnsupportedQuantization",
            "--quantization",
            f"--quantization is {wanted[:40]!r} but the checkpoint is in {shape.quantization}; "
            "leave it out",
        )
    if groups is shape.weight_groups and dtype == shape.dtype:
        return shape
    follows = canonical(shape.kv_cache_dtype) == canonical(shape.dtype)
    return replace(
        shape,
        weight_groups=groups,
        kv_cache_dtype=dtype if follows else shape.kv_cache_dtype,
        dtype=dtype,
    )


def kv_storage(shape: ModelShape, engine: EngineConfig, capability: str) -> KvDtype:
    """How keys and values are stored: `--kv-cache-dtype`, or what the checkpoint asks for.

    Raises:
        Refused: a format whose size is not known, or that this kind of attention does not take.
    """
    auto = engine.kv_cache_dtype == "auto"
    name = shape.kv_cache_dtype if auto else engine.kv_cache_dtype
    kinds = {group.kind for group in shape.layer_groups}
    if LayerKind.MLA in kinds and LayerKind.SPARSE_INDEXER in kinds:
        name = _sparse_latent_dtype(shape, name, capability, auto=auto)
    kv = kv_dtype(name)
    if kv is None:
        raise Refused(
            "UnsupportedKvCacheDtype",
            "--kv-cache-dtype",
            f"--kv-cache-dtype is {name[:40]!r}, whose page size is not known for this model; "
            f"known are auto, {', '.join(KV_DTYPES)}",
        )
    latent = LayerKind.MLA in kinds
    if (latent and not kv.latent) or (not latent and kv.latent_only):
        what = "which MLA has no kernel for" if latent else "a format of latents only"
        raise Refused(
            "UnsupportedKvCacheDtype",
            "--kv-cache-dtype",
            f"--kv-cache-dtype is {kv.name}, {what}; use auto or fp8",
        )
    return kv


def _sparse_latent_dtype(shape: ModelShape, name: str, capability: str, *, auto: bool) -> str:
    """The format that the sparse MLA backend of the device makes of a dtype.

    vllm v0.32.0 mla_attention.py, _canonicalize_sparse_mla_kv_cache_dtype, and models/config.py:
    FlashMLA (9.x) serves fp8 that the user asks for in a packed format, and fp8 that the
    checkpoint asks for as it is; 12.x packs always; GLM takes fp8 by default on 10.x.
    """
    if "head" in name:  # scales per head: no kernel of sparse MLA reads them
        return name
    major = compute_major(capability)
    if major == "12" or (major != "10" and name.startswith("fp8") and not auto):
        return "fp8_ds_mla"
    if major == "10" and auto and shape.architecture == "GlmMoeDsaForCausalLM":
        return "fp8"
    return name
