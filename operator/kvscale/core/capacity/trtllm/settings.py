"""The settings of a TensorRT-LLM server, resolved."""

from dataclasses import dataclass

from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.options import TensorRtLlmOptions
from kvscale.core.engines.trtllm.rules import (
    BATCH,
    BLOCK_TOKENS,
    FRACTION_MILLI,
    STEP_TOKENS,
    TrtRules,
)
from kvscale.core.model.dtypes import KvDtype, canonical, kv_dtype
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape

_DTYPES = {"fp8", "nvfp4"}
MOST = 1 << 31
WINDOWS_FROM = (1, 3, 0)
"""First version taken to derive windows from the model's layer types."""


@dataclass(frozen=True, slots=True)
class TrtSettings:
    """What the server runs with.

    Attributes:
        rules: of its version.
        shape: the model in the format that it is loaded in.
        kv: storage of K and V.
        options: what TensorRT-LLM alone has.
        block_tokens: tokens per block.
        fraction_milli: share for KV of the memory that is left, in thousandths.
        max_model_len: longest sequence in tokens.
        batch: sequences of the largest running batch.
        step_tokens: token budget of a step.
        assumptions: one sentence each.
    """

    rules: TrtRules
    shape: ModelShape
    kv: KvDtype
    options: TensorRtLlmOptions
    block_tokens: int
    fraction_milli: int
    max_model_len: int
    batch: int
    step_tokens: int
    assumptions: tuple[str, ...]


def resolve_tensorrt(
    shape: ModelShape, engine: EngineConfig, rules: TrtRules, length: int
) -> TrtSettings:
    """Every setting that the capacity depends on.

    Raises:
        Refused: the first that the server would not start with, or that has no rule here.
    """
    stated = engine.options
    options = stated if isinstance(stated, TensorRtLlmOptions) else TensorRtLlmOptions()
    if options.backend not in {"pytorch", "_autodeploy"}:
        raise Refused(
            "UnsupportedBackend",
            "--backend",
            f"--backend is {options.backend[:40]!r}: an engine that was built ahead has the sizes "
            "of its build, which are not read here. Use --backend pytorch",
        )
    milli = engine.memory_utilization_milli
    if milli is not None and not 1 <= milli <= 1000:  # noqa: PLR2004 - thousandths
        raise Refused(
            "InvalidMemoryUtilization",
            "--kv_cache_free_gpu_memory_fraction",
            f"--kv_cache_free_gpu_memory_fraction is {milli / 1000}; it must be above 0 and at "
            "most 1",
        )
    block = BLOCK_TOKENS if engine.block_size is None else engine.block_size
    if block < 1 or block & (block - 1) or block > 1 << 12:
        raise Refused(
            "InvalidBlockSize",
            "kv_cache_config.tokens_per_block",
            f"kv_cache_config.tokens_per_block is {block}; it must be a power of two up to 4096",
        )
    batch, tokens = engine.max_num_seqs or BATCH, engine.max_num_batched_tokens or STEP_TOKENS
    for name, value in (("--max_batch_size", batch), ("--max_num_tokens", tokens)):
        if not 1 <= value <= MOST:
            raise Refused("InvalidBatch", name, f"{name} is {value}; it must be from 1 to {MOST}")
    return TrtSettings(
        rules, shape, _kv(shape, engine), options, block, milli or FRACTION_MILLI, length, batch,
        tokens, rules.assumptions,
    )  # fmt: skip


def _kv(shape: ModelShape, engine: EngineConfig) -> KvDtype:
    name = canonical(engine.kv_cache_dtype)
    found = kv_dtype(shape.kv_cache_dtype if name == "auto" else name)
    if found is None or (name not in {"auto", *_DTYPES} and name != canonical(shape.dtype)):
        raise Refused(
            "UnsupportedKvCacheDtype",
            "--kv_cache_dtype",
            f"--kv_cache_dtype is {name[:40]!r}; known are auto, fp8 and nvfp4",
        )
    return found


def kept_window(settings: TrtSettings, group: LayerGroup) -> int | None:
    """Tokens that the layers keep; None: every token.

    A stated `max_attention_window` of one value holds for every layer; of several, the model's
    own windows are taken to be meant. Not stated, the model's own are derived from its layer
    types (`_derive_layer_type_attention_windows`), which older versions did not; local chunks
    are kept whole.
    """
    stated = settings.options.max_attention_window
    own = group.kind is LayerKind.SLIDING_WINDOW and settings.rules.version >= WINDOWS_FROM
    window = group.window if own or len(stated) > 1 else None
    if len(stated) == 1:
        window = min(stated[0], window) if window else stated[0]
    return None if window is None or window >= settings.max_model_len else window
