"""The settings of an SGLang server, resolved: what was left open, filled with its own defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from kvscale.core.capacity.drafts import with_drafts
from kvscale.core.capacity.neutral import resolve_model
from kvscale.core.capacity.sglang.cells import sglang_kv, sglang_options
from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.sglang.fraction import (
    DefaultFraction,
    Launch,
    chunk_default,
    decode_batch_default,
    default_fraction,
    device_mib,
    prefill_graph_count,
)
from kvscale.core.engines.sglang.rules import SGLangRules, sglang_rules
from kvscale.core.model.dtypes import KvDtype
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.refusal import Refusal

MOST = 1 << 31
PPM = 1_000_000
SPECULATIVE_REQUESTS = 48
"""Default of `--max-running-requests` with speculation (arg_groups/speculative_hook.py)."""

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "--max-model-len": "--context-length",
        "--max-num-seqs": "--max-running-requests",
        "--max-num-batched-tokens": "--chunked-prefill-size",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--gpu-memory-utilization": "--mem-fraction-static",
        "--block-size": "--page-size",
        "--kv-cache-memory-bytes": "targets[].engine.kvCacheMemoryBytes",
    }
)
"""vLLM's names of settings, as SGLang calls them."""

_VISION = (24, 1152)
"""Layers and width of the vision tower that a multimodal model is taken to have: SGLang reads keys
of the tower that most models spell otherwise, and then takes 24 layers."""


@dataclass(frozen=True, slots=True)
class SGLangSettings:
    """What the server runs with.

    Attributes:
        rules: of its version.
        shape: the model in the format that it is loaded in.
        kv: storage of K and V.
        options: what SGLang alone has.
        page_tokens, page_reason: tokens per page, and why.
        fraction_milli: of the memory free before the load.
        fraction: the default that it is; None where it is stated.
        max_model_len: longest sequence in tokens.
        chunk: tokens of one prefill.
        requests: `--max-running-requests` of one engine; None: from the pool.
        radix: whether the radix cache is on.
        drafts: speculative tokens per step.
        attention_ranks: data-parallel ranks of attention; 1 without attention DP.
        assumptions: one sentence each.
    """

    rules: SGLangRules
    shape: ModelShape
    kv: KvDtype
    options: SGLangOptions
    page_tokens: int
    page_reason: str
    fraction_milli: int
    fraction: DefaultFraction | None
    max_model_len: int
    chunk: int
    requests: int | None
    radix: bool
    drafts: int
    attention_ranks: int
    assumptions: tuple[str, ...]


_PAGES = {
    "flashmla": (64,), "cutlass_mla": (128,), "trtllm_mla": (64, 32), "trtllm_mha": (64, 16, 32),
    "cutedsl_mla": (64, 32), "tokenspeed_mla": (64, 32), "hpc": (64,), "fa4": (128,),
}  # fmt: skip
"""Pages that an attention backend can work with, the one that it falls back to first."""


def _page(
    engine: EngineConfig, options: SGLangOptions, rules: SGLangRules, kinds: frozenset[LayerKind],
    capability: str,
) -> tuple[int, str]:  # fmt: skip
    """Tokens per page and why (arg_groups/overrides.py of 0.5.23, server_args.py before)."""
    wanted = engine.block_size
    if wanted is not None and not 1 <= wanted <= 1 << 16:
        raise Refused(
            "InvalidBlockSize",
            "--page-size",
            f"--page-size is {wanted}; it must be from 1 to 65536",
        )
    backend, why = options.attention_backend, ""
    latent = LayerKind.MLA in kinds
    if LayerKind.SPARSE_INDEXER in kinds and latent:
        return 64, "sparse attention works with pages of 64"
    blackwell = compute_major(capability) == "10"
    if not backend and blackwell and not latent and rules.version >= (0, 5, 4):
        backend, why = "trtllm_mha", "the backend of Blackwell, "
    fits = _PAGES.get(backend)
    recurrent = any(kind.recurrent for kind in kinds)
    if fits is not None and not recurrent and wanted not in fits:
        return fits[0], f"{why}{backend} needs it"
    return (wanted, "--page-size") if wanted is not None else (1, "default")


def _within(name: str, value: int | None, least: int = 1) -> None:
    if value is not None and not least <= value <= MOST:
        raise Refused("InvalidBatch", name, f"{name} is {value}; it must be from {least} to {MOST}")


def _check(engine: EngineConfig, options: SGLangOptions) -> None:
    milli = engine.memory_utilization_milli
    if milli is not None and not 1 <= milli < 1000:  # noqa: PLR2004 - thousandths
        raise Refused(
            "InvalidMemoryUtilization",
            "--mem-fraction-static",
            f"--mem-fraction-static is {milli / 1000}; it must be above 0 and below 1",
        )
    _within("--max-running-requests", engine.max_num_seqs)
    _within("--max-total-tokens", options.max_total_tokens)
    _within("--speculative-num-draft-tokens", engine.speculative_tokens, 0)
    if engine.decode_context_parallel > 1:
        raise Refused(
            "UnsupportedParallelism",
            "--dcp-size",
            f"--dcp-size is {engine.decode_context_parallel}; how SGLang shares tokens over ranks "
            "is not known here. Leave it at 1",
        )
    _within("--max-mamba-cache-size", options.max_mamba_cache_size)
    _within("--cuda-graph-max-bs", options.graph_batch)
    _within("--mamba-full-memory-ratio", options.mamba_ratio_milli)
    ratio = options.swa_ratio_ppm
    if ratio is not None and not 1 <= ratio <= PPM:
        raise Refused(
            "InvalidBatch",
            "--swa-full-tokens-ratio",
            f"--swa-full-tokens-ratio is {ratio / PPM}; it must be above 0 and at most 1",
        )


def resolve_sglang(
    shape: ModelShape, engine: EngineConfig, device: Device
) -> SGLangSettings | Refusal:
    """Every setting that the capacity depends on, or the first that the server refuses."""
    rules = sglang_rules(engine.version)
    if isinstance(rules, Refusal):
        return rules
    model = resolve_model(shape, engine, device, _WORDS)
    if isinstance(model, Refusal):
        return model
    try:
        _check(engine, sglang_options(engine))
        return _resolved(model.shape, engine, device, rules, model.max_model_len)
    except Refused as refused:
        return refused.refusal


_OWN_LAYERS = frozenset({"EAGLE", "EAGLE3", "NEXTN"})
"""Algorithms whose draft has layers like the model's own."""


def _with_draft(
    shape: ModelShape, engine: EngineConfig, rules: SGLangRules
) -> tuple[ModelShape, SGLangOptions, tuple[str, ...]]:
    """The model and the options with the draft's layers, where they are priced."""
    options, assumptions = sglang_options(engine), rules.assumptions
    if options.speculative not in _OWN_LAYERS or options.draft_layers is not None:
        return shape, options, assumptions
    if not rules.draft_priced:
        return shape, replace(options, draft_layers=0), assumptions
    if shape.draft_layers:
        drafted = with_drafts(shape, replace(engine, speculative_method="mtp"))
        return drafted, replace(options, draft_layers=0), assumptions
    assumptions += ("the draft model is taken to have one layer, like the model's own",)
    return shape, replace(options, draft_layers=1), assumptions


def _resolved(
    shape: ModelShape, engine: EngineConfig, device: Device, rules: SGLangRules, length: int
) -> SGLangSettings:
    shape, options, assumptions = _with_draft(shape, engine, rules)
    kinds = frozenset(group.kind for group in shape.layer_groups)
    page, why = _page(engine, options, rules, kinds, device.compute_capability)
    attention = engine.data_parallel if options.dp_attention else 1
    mib = device_mib(device.memory_bytes)
    chunk = engine.max_num_batched_tokens or chunk_default(rules, mib)
    tensor = engine.tensor_parallel * attention
    batch = options.graph_batch or decode_batch_default(rules, mib, tensor)
    requests = engine.max_num_seqs
    if requests is None and options.speculative:
        requests = SPECULATIVE_REQUESTS
    elif requests is not None and rules.version >= (0, 5, 22) and options.graph_batch is None:
        batch = min(batch, requests)
    fraction = None
    milli = engine.memory_utilization_milli
    if milli is None:
        vision = any(group.name.startswith("vision") for group in shape.weight_groups)
        captured = (
            rules.prefill_graphs if options.prefill_graphs is None else options.prefill_graphs
        )
        fraction = default_fraction(
            rules,
            Launch(
                device_mib=mib,
                ranks=tensor * engine.pipeline_parallel,
                attention_ranks=attention,
                chunk=chunk,
                decode_batch=0 if engine.enforce_eager else batch,
                prefill_graphs=prefill_graph_count(chunk)
                if captured and not engine.enforce_eager
                else 0,
                latent=LayerKind.MLA in kinds,
                speculative=options.speculative,
                deepep=options.deepep,
                vision=_VISION if vision else None,
            ),
        )
        milli = fraction.milli
        if vision:
            assumptions += ("--mem-fraction-static of a multimodal model is taken for a ViT-L",)
    return SGLangSettings(
        rules=rules,
        shape=shape,
        kv=sglang_kv(shape, engine, device.compute_capability),
        options=options,
        page_tokens=page,
        page_reason=why,
        fraction_milli=milli,
        fraction=fraction,
        max_model_len=length,
        chunk=chunk,
        requests=None if requests is None else max(1, requests // attention),
        radix=engine.prefix_caching is not False,
        drafts=engine.speculative_tokens,
        attention_ranks=attention,
        assumptions=assumptions,
    )
