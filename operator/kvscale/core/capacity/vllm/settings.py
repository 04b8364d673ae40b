"""The settings of an engine, resolved: what was left open, filled with the engine's defaults.

Everything that the engine itself would refuse at its start is refused here, in its own words for
the setting.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from kvscale.core.capacity.blocks import CacheFormat, Scheduling
from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.drafts import with_drafts
from kvscale.core.capacity.placement import check_parallel
from kvscale.core.capacity.vllm.length import AUTO_LENGTH, MOST_TOKENS, model_length
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.allocation import (
    TableRules,
    scheduling,
    state_grid,
    table_rules,
)
from kvscale.core.engines.vllm.blocks import IMAGE_PREFIX, BlockDevice, block_size
from kvscale.core.engines.vllm.checks import first_refusal
from kvscale.core.engines.vllm.kernels import automatic_dtype
from kvscale.core.engines.vllm.rules import Rules, batch_defaults, rules_of
from kvscale.core.engines.vllm.start import Start, capability_of, kinds_of
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.model.dtypes import BITS, KV_DTYPES, KvDtype, canonical, kv_dtype
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind, ModelShape

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engine runs with.

    Attributes:
        rules: of its version.
        shape: the model in the format that the engine loads it in.
        kv: storage of the KV cache.
        cache: the same with what recurrent states are stored in.
        scheduling: what bounded layers hold besides their bound.
        tables: how block tables are formed.
        block_tokens, block_reason, block_inputs: tokens per block, why, and from what.
        state_page: bytes that the page of a recurrent state is padded to; 0: no padding.
        max_model_len: longest sequence in tokens; an upper bound where `auto_length`.
        auto_length: the engine shortens `max_model_len` to what fits.
        assumptions: one sentence each.
    """

    rules: Rules
    shape: ModelShape
    kv: KvDtype
    cache: CacheFormat
    scheduling: Scheduling
    tables: TableRules
    block_tokens: int
    block_reason: str
    block_inputs: tuple[tuple[str, int], ...]
    state_page: int
    memory_utilization_milli: int
    max_model_len: int
    auto_length: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    assumptions: tuple[str, ...]


def _stored_on(shape: ModelShape, device: Device) -> ModelShape:
    """The model with the padding that the kernels of that device's generation need."""
    if not any(group.padded for group in shape.weight_groups):
        return shape
    major = device.compute_capability.partition(".")[0]
    return replace(
        shape,
        weight_groups=tuple(
            group.on_device(int(major) if major.isdecimal() else None)
            for group in shape.weight_groups
        ),
    )


def _loaded(shape: ModelShape, engine: EngineConfig, capability: str) -> ModelShape:
    """The model as the engine loads it: `--dtype` and `--quantization` applied."""
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


def _kv(shape: ModelShape, engine: EngineConfig, capability: str) -> KvDtype:
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
    major = capability.split(".", maxsplit=1)[0]
    if major == "12" or (major != "10" and name.startswith("fp8") and not auto):
        return "fp8_ds_mla"
    if major == "10" and auto and shape.architecture == "GlmMoeDsaForCausalLM":
        return "fp8"
    return name


def _batch(
    engine: EngineConfig, rules: Rules, device: Device, max_model_len: int
) -> tuple[int, int]:
    """Batched tokens and sequences (vllm v0.33.0 engine/arg_utils.py, _set_default_args)."""
    default_tokens, default_seqs = batch_defaults(rules, device)
    seqs = default_seqs if engine.max_num_seqs is None else engine.max_num_seqs
    tokens = engine.max_num_batched_tokens
    if tokens is None:
        tokens = min(default_tokens, max(1, seqs) * max_model_len)
    if engine.max_num_seqs is None:
        seqs = min(seqs, max(1, tokens))
    if not 1 <= seqs <= MOST_TOKENS:
        raise Refused(
            "InvalidBatch",
            "--max-num-seqs",
            f"--max-num-seqs is {seqs}; it must be from 1 to {MOST_TOKENS}",
        )
    if not seqs <= tokens <= MOST_TOKENS:
        raise Refused(
            "InvalidBatch",
            "--max-num-batched-tokens",
            f"--max-num-batched-tokens is {tokens}; it must be from {seqs}, the number of "
            f"--max-num-seqs, to {MOST_TOKENS}",
        )
    return tokens, seqs


def _utilization(engine: EngineConfig, rules: Rules) -> int:
    value = engine.memory_utilization_milli
    if value is None:
        return rules.memory_utilization_milli
    if 1 <= value <= 1000:  # noqa: PLR2004 - thousandths
        return value
    raise Refused(
        "InvalidMemoryUtilization",
        "--gpu-memory-utilization",
        f"--gpu-memory-utilization is {value / 1000}; it must be above 0 and at most 1",
    )


def resolve(shape: ModelShape, engine: EngineConfig, device: Device) -> Settings | Refusal:
    """Every setting that the capacity depends on.

    Args:
        shape: the model, as its checkpoint stores it.
        engine: what is stated.
        device: one of those that the engine runs on.

    Returns:
        The settings, or the first that the engine would not start with.
    """
    try:
        return _resolve(shape, engine, device)
    except Refused as refused:
        return refused.refusal


def _given(value: T | Refusal) -> T:
    if isinstance(value, Refusal):
        raise Refused(value.reason, value.field, value.message)
    return value


def _check(start: Start) -> None:
    refusal = first_refusal(start)
    if refusal is not None:
        raise Refused(refusal.reason, refusal.field, refusal.message)


def _resolve(shape: ModelShape, engine: EngineConfig, device: Device) -> Settings:
    rules = _given(rules_of(engine.version))
    check_parallel(shape, engine)
    capability = device.compute_capability
    loaded = with_drafts(_loaded(_stored_on(shape, device), engine, capability), engine)
    kv = _kv(loaded, engine, capability)
    _check(Start(rules, loaded, engine, kv.name, capability_of(capability), kinds_of(loaded)))
    cache = _cache_format(kv, loaded, engine)
    grid = state_grid(rules, loaded, engine, capability)
    beside = BlockDevice(capability, grid, loaded.architecture in IMAGE_PREFIX)
    block = _given(block_size(rules, engine.block_size, loaded.layer_groups, cache, beside))
    utilization = _utilization(engine, rules)
    length = model_length(rules, loaded, engine)
    tokens, seqs = _batch(engine, rules, device, length)
    return Settings(
        rules=rules,
        shape=loaded,
        kv=kv,
        cache=cache,
        scheduling=scheduling(rules, loaded, engine, tokens, capability),
        tables=table_rules(rules, engine),
        block_tokens=block.tokens,
        block_reason=block.why,
        block_inputs=block.inputs,
        state_page=block.state_page,
        memory_utilization_milli=utilization,
        max_model_len=length,
        auto_length=engine.max_model_len == AUTO_LENGTH,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        assumptions=(
            *rules.assumptions,
            *shape.notes,
            *((block.assumption,) if block.assumption else ()),
        ),
    )


_STATE_DTYPES = ("auto", *BITS)


def _cache_format(kv: KvDtype, shape: ModelShape, engine: EngineConfig) -> CacheFormat:
    chosen = []
    for flag, value in (
        ("--mamba-cache-dtype", engine.mamba_cache_dtype),
        ("--mamba-ssm-cache-dtype", engine.mamba_ssm_cache_dtype),
    ):
        name = canonical(value)
        if name not in _STATE_DTYPES:
            raise Refused(
                "InvalidDtype", flag, f"{flag} is {value[:40]!r}; use {', '.join(_STATE_DTYPES)}"
            )
        chosen.append(name)
    return CacheFormat(
        engine.tensor_parallel, kv, shape.dtype, chosen[0], chosen[1], engine.speculative_tokens
    )
