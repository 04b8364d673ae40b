"""The settings of a vLLM engine, resolved: what was left open, filled with vLLM's defaults.

Everything that vLLM itself would refuse at its start is refused here, in its own words for
the setting.
"""

from dataclasses import dataclass
from typing import TypeVar

from kvscale.core.capacity.drafts import with_drafts
from kvscale.core.capacity.placement import check_parallel
from kvscale.core.capacity.vllm.draft_model import draft_model, with_draft_model
from kvscale.core.capacity.vllm.length import MOST_TOKENS, model_length
from kvscale.core.capacity.vllm.loading import kv_storage, loaded, stored_on
from kvscale.core.devices.compute_capability import capability_of
from kvscale.core.devices.device import Device
from kvscale.core.engines.cache_format import CacheFormat, Scheduling
from kvscale.core.engines.config import AUTO_LENGTH, EngineConfig
from kvscale.core.engines.vllm.allocation import (
    TableRules,
    scheduling,
    state_grid,
    table_rules,
)
from kvscale.core.engines.vllm.blocks import IMAGE_PREFIX, BlockDevice, block_size
from kvscale.core.engines.vllm.checks import first_refusal
from kvscale.core.engines.vllm.drafting import drafter_note
from kvscale.core.engines.vllm.rules import Rules, batch_defaults, rules_of
from kvscale.core.engines.vllm.start import Start, kinds_of
from kvscale.core.model.dtypes import BITS, KvDtype, canonical
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

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
        memory_utilization_milli: share of the device that vLLM may use, in thousandths.
        max_model_len: longest sequence in tokens; an upper bound where `auto_length`.
        auto_length: the engine shortens `max_model_len` to what fits.
        max_num_seqs: sequences of the largest running batch.
        max_num_batched_tokens: token budget of one step.
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
    model = with_drafts(loaded(stored_on(shape, device), engine, capability), engine)
    draft = draft_model(engine)
    if draft is not None:
        model = with_draft_model(model, draft, engine, device)
    kv = kv_storage(model, engine, capability)
    _check(Start(rules, model, engine, kv.name, capability_of(capability), kinds_of(model)))
    cache = _cache_format(kv, model, engine)
    grid = state_grid(rules, model, engine, capability)
    beside = BlockDevice(capability, grid, model.architecture in IMAGE_PREFIX)
    block = _given(block_size(rules, engine.block_size, model.layer_groups, cache, beside))
    utilization = _utilization(engine, rules)
    length = model_length(rules, model, engine)
    tokens, seqs = _batch(engine, rules, device, length)
    return Settings(
        rules=rules,
        shape=model,
        kv=kv,
        cache=cache,
        scheduling=scheduling(rules, model, engine, tokens, capability),
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
            *filter(None, (block.assumption, drafter_note(engine, counted=draft is not None))),
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
