"""Whether a start can be one of the engine that is asked about, and what says that it is not.

A calibration by another model, format, device or parallelism gives a number that looks measured
and is wrong, so what the log contradicts is refused, and both sides are named.
"""

from kvscale.core.capacity.boot_model import other_model
from kvscale.core.devices.device import Device
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.dtypes import BITS, canonical, kv_dtype
from kvscale.core.model.shape import ModelShape
from kvscale.core.values import GIB, Band

WEIGHTS_PERCENT = 15
"""Logged weights further off than this are of another model, format or parallelism."""

WEIGHTS_SLACK = GIB // 4
"""What SGLang's figure has besides weights: the memory that is free less, not theirs alone."""

DEVICE_PERCENT = 10
"""Totals of one product differ by less: error correction, a driver's own share."""

_RANKS = {
    EngineKind.VLLM: (
        ("tensor_parallel_size", "tensor_parallel", "--tensor-parallel"),
        ("pipeline_parallel_size", "pipeline_parallel", "--pipeline-parallel"),
    ),
    EngineKind.SGLANG: (
        ("tp_size", "tensor_parallel", "--tensor-parallel"),
        ("pp_size", "pipeline_parallel", "--pipeline-parallel"),
    ),
}


def mismatch(boot: BootLog, shape: ModelShape, engine: EngineConfig) -> str:
    """What the log states and what is asked, where they differ; "" where they agree.

    Args:
        boot: the start.
        shape: the model that is asked about.
        engine: as it is asked about.
    """
    if boot.kind is not engine.kind:
        return f"the log is of {boot.kind}, the engine is {engine.kind}"
    return (
        _not_measured(boot)
        or other_model(boot, shape)
        or _ranks(boot, engine)
        or _dtype(boot, shape, engine)
        or _kv_dtype(boot, shape, engine)
    )


def other_weights(boot: BootLog, computed: int | None) -> str:
    """How the weights of the log are not those of the model; "" if they are, or are not told.

    Args:
        boot: the start.
        computed: bytes of the model's weights per device; None: not known.
    """
    if boot.weights is None or computed is None:
        return ""
    logged = boot.weights.expected
    if abs(logged - computed) * 100 <= WEIGHTS_PERCENT * computed + 100 * WEIGHTS_SLACK:
        return ""
    return (
        f"that start loaded weights of {logged / GIB:.2f} GiB per device, this model has "
        f"{computed / GIB:.2f}; give a log of the same model, format and parallelism"
    )


def misfit(boot: BootLog, device: Device, kv: Band, budget: int, computed: int | None) -> str:
    """Why the start cannot have been on this device; "" if it can.

    Args:
        boot: the start.
        device: the one that is asked about.
        kv: its KV memory per device, in bytes.
        budget: bytes per device that the memory fraction of the start allows.
        computed: bytes of the model's weights per device; None: not known.
    """
    have, total = device.memory_bytes, boot.total.expected if boot.total else None
    off = total - have if total is not None else 0
    if boot.kind is not EngineKind.SGLANG:
        # What SGLang finds free before the load is less where others use the device too.
        off = abs(off)
    if total is not None and off * 100 > DEVICE_PERCENT * have:
        return (
            f"that start was on a device of {total / GIB:.2f} GiB, {device.product} has "
            f"{have / GIB:.2f}; name the device of that start by --gpu"
        )
    weights = boot.weights.low if boot.weights else (computed or 0) * (100 - WEIGHTS_PERCENT) // 100
    if kv.low + max(0, weights) <= budget + budget // 500:
        return ""
    beside = f" and {weights / GIB:.2f} GiB of weights" if weights > 0 else ""
    return (
        f"{kv.expected / GIB:.2f} GiB for KV{beside} are more than the {budget / GIB:.2f} GiB that "
        f"its memory fraction leaves on {device.product} ({have / GIB:.2f} GiB); the log is of "
        "another device (--gpu), or its fraction is another (--calibrate-utilization)"
    )


def _not_measured(boot: BootLog) -> str:
    if boot.kv_fixed:
        return (
            "the memory for KV was given in that start (--kv-cache-memory-bytes), so nothing was "
            "measured; start once without it"
        )
    if boot.kind is EngineKind.SGLANG and boot.number("max_total_tokens"):
        return (
            "the pool of that start was given (--max-total-tokens), so nothing was measured; start "
            "once without it"
        )
    return ""


def _ranks(boot: BootLog, engine: EngineConfig) -> str:
    for name, field, option in _RANKS.get(boot.kind, ()):
        logged, asked = boot.number(name), getattr(engine, field)
        if logged is None and boot.complete_arguments:
            logged = 1
        if logged is not None and logged != asked:
            return (
                f"that start has {name} {logged}, asked is {asked}; they must be equal: {option} "
                f"{logged}, or another log"
            )
    return ""


def _dtype(boot: BootLog, shape: ModelShape, engine: EngineConfig) -> str:
    logged = canonical(boot.arguments.get("dtype", "auto"))
    asked = canonical(engine.dtype)
    asked = canonical(shape.dtype) if asked == "auto" else asked
    if logged not in BITS or asked not in BITS or BITS[logged] == BITS[asked]:
        return ""
    return f"that start has dtype {logged}, asked is {asked}; give a log of the same dtype"


def _kv_dtype(boot: BootLog, shape: ModelShape, engine: EngineConfig) -> str:
    stated = boot.arguments.get("kv_cache_dtype", "auto" if boot.complete_arguments else "")
    asked = engine.kv_cache_dtype
    if not stated or stated == asked:
        return ""
    one, other = (kv_dtype(shape.kv_cache_dtype if n == "auto" else n) for n in (stated, asked))
    if one is None or other is None or one.bits_milli == other.bits_milli or one.latent_only:
        return ""
    return (
        f"that start has kv_cache_dtype {stated}, asked is {asked}; they must be equal: "
        f"--kv-cache-dtype {stated}, or another log"
    )
