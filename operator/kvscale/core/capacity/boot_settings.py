"""The settings of a start: what its log states, then what is asked, then the engine's defaults."""

from dataclasses import replace

from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

_LENGTHS = ("max_model_len", "max_seq_len", "context_length")
_ONLINE = "fp8"
"""The one method that vLLM applies to a plain checkpoint with a size that is known here."""


def as_started(engine: EngineConfig, boot: BootLog, shape: ModelShape) -> EngineConfig:
    """What is asked, with all that was left open as the start had it, but for the memory fraction.

    Whoever gives the log of a build and states nothing else asks about that build.

    Args:
        engine: what is stated.
        boot: the start.
        shape: the model.
    """
    if boot.kind is not engine.kind:
        return engine
    return replace(
        engine,
        version=engine.version or boot.version or None,
        max_model_len=engine.max_model_len or length(boot),
        max_num_batched_tokens=engine.max_num_batched_tokens or _number(boot, "batched_tokens"),
        max_num_seqs=engine.max_num_seqs or _number(boot, "seqs"),
        block_size=engine.block_size or boot.number("block_size"),
        enforce_eager=engine.enforce_eager or boot.arguments.get("enforce_eager") == "True",
        quantization=engine.quantization or _online(boot, shape),
    )


def booted_config(boot: BootLog, shape: ModelShape, engine: EngineConfig) -> EngineConfig:
    """The settings of the start: what it prints, its defaults where it prints what differs.

    Args:
        boot: the start.
        shape: the model.
        engine: what is asked; it stands where the log says nothing, but for the memory fraction,
            which would calibrate by a number that nobody measured.
    """
    fresh = boot.complete_arguments
    eager = boot.arguments.get("enforce_eager")
    return replace(
        engine,
        version=boot.version or engine.version,
        memory_utilization_milli=boot.utilization_milli
        or (None if fresh else engine.memory_utilization_milli),
        max_model_len=length(boot) or engine.max_model_len,
        max_num_batched_tokens=_number(boot, "batched_tokens")
        or (None if fresh else engine.max_num_batched_tokens),
        max_num_seqs=_number(boot, "seqs") or (None if fresh else engine.max_num_seqs),
        kv_cache_dtype=boot.arguments.get("kv_cache_dtype", engine.kv_cache_dtype),
        enforce_eager=engine.enforce_eager if eager is None and not fresh else eager == "True",
        quantization=_online(boot, shape) or engine.quantization,
        kv_cache_memory_bytes=None,
        num_gpu_blocks_override=None,
    )


def with_fraction(
    boot: BootLog | Refusal | None, milli: int, option: str = "--calibrate-utilization"
) -> BootLog | Refusal | None:
    """The start with the memory fraction that a person states for it.

    Args:
        boot: the start, or why there is none.
        milli: the fraction in thousandths.
        option: that stated it, for the message.

    Returns:
        The start, or a Refusal where its log says otherwise.
    """
    if boot is None or isinstance(boot, Refusal):
        return boot
    logged = boot.utilization_milli
    if logged is not None and logged != milli:
        return Refusal(
            "CalibrationFailed",
            option,
            f"{option} is {milli / 1000:g}, but the log states {logged / 1000:g}; leave the option "
            "out, or give the log of the other start",
        )
    return replace(boot, utilization_milli=milli)


def length(boot: BootLog) -> int | None:
    """The longest sequence of the start in tokens; None: not told."""
    told = (boot.number(name) for name in _LENGTHS)
    return next((number for number in told if number), None) or boot.length


def method(boot: BootLog) -> str:
    """How the start quantised the weights, by the checkpoint format's name; "" if not at all."""
    name = canonical_method(boot.arguments.get("quantization", ""))
    return "" if name == "none" else name


def loads_otherwise(boot: BootLog, shape: ModelShape) -> bool:
    """Whether the start quantised the weights in a way whose size the config does not tell."""
    logged = method(boot)
    if not logged or logged == canonical_method(shape.quantization):
        return False
    return _online(boot, shape) is None


def _online(boot: BootLog, shape: ModelShape) -> str | None:
    """The method that the engine itself applied to a plain checkpoint, where its size is known."""
    plain = shape.architecture and not shape.quantization
    return _ONLINE if boot.kind is EngineKind.VLLM and plain and method(boot) == _ONLINE else None


def _number(boot: BootLog, name: str) -> int | None:
    return boot.number(f"max_num_{name}") or None
