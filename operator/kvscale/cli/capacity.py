"""`kvscale capacity`: what one engine holds, from its model, its devices and its arguments."""

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from kvscale.app.capacity import capacity_view
from kvscale.app.capacity_document import capacity_document
from kvscale.app.capacity_page import capacity_page
from kvscale.cli.boot import read_boot
from kvscale.cli.engine_options import (
    AttentionDpOption,
    EngineOption,
    MambaRatioOption,
    MambaSlotsOption,
    MaxTokensOption,
    SwaRatioOption,
    engine_named,
    with_options,
)
from kvscale.cli.errors import fail
from kvscale.cli.model_option import model_shape
from kvscale.cli.options import device_named, length_or_auto, positive_number
from kvscale.cli.output import Output, OutputOption, emit, one_line, refuse
from kvscale.core.engines.config import AUTO_LENGTH, EngineConfig, EngineKind
from kvscale.core.engines.vllm.drafting import method_of
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.trace import counted
from kvscale.core.values import GIB

MOST_GIB = 1 << 20
VERSION = re.compile(r"v?\d{1,4}(\.\d{1,4}){1,2}([.+a-z]\S{0,40})?")


def capacity(
    *,
    gpu: Annotated[
        str, typer.Option("--gpu", help="device: NVIDIA-L4, L4, H100 (see kvscale devices)")
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", help="the model's config.json, or the directory that holds it"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="a known model instead: Qwen/Qwen3-8B (see kvscale presets)"),
    ] = None,
    engine_kind: EngineOption = EngineKind.VLLM.value,
    tensor_parallel: Annotated[
        int,
        typer.Option(
            "--tensor-parallel", "--tensor-parallel-size", help="devices that split each layer"
        ),
    ] = 1,
    pipeline_parallel: Annotated[
        int,
        typer.Option(
            "--pipeline-parallel", "--pipeline-parallel-size", help="stages that split the layers"
        ),
    ] = 1,
    data_parallel: Annotated[
        int,
        typer.Option(
            "--data-parallel",
            "--data-parallel-size",
            help="engines, each with a KV pool of its own",
        ),
    ] = 1,
    decode_context_parallel: Annotated[
        int,
        typer.Option(
            "--decode-context-parallel",
            "--decode-context-parallel-size",
            min=1,
            help="tensor-parallel ranks that share out the tokens",
        ),
    ] = 1,
    expert_parallel: Annotated[
        bool, typer.Option("--enable-expert-parallel", help="experts are shared out whole")
    ] = False,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            "--max-model-len",
            help="longest sequence in tokens (8192, 8k), or auto: what fits; default: the model's",
            parser=length_or_auto,
            metavar="TOKENS",
        ),
    ] = None,
    max_num_seqs: Annotated[
        int | None,
        typer.Option(
            "--max-num-seqs",
            help="largest batch in sequences",
            parser=positive_number,
            metavar="SEQUENCES",
        ),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-num-batched-tokens",
            help="tokens of one step (2048, 2k)",
            parser=positive_number,
            metavar="TOKENS",
        ),
    ] = None,
    kv_cache_dtype: Annotated[
        str, typer.Option("--kv-cache-dtype", help="auto, fp8, ... as the engine takes it")
    ] = "auto",
    block_size: Annotated[
        int | None, typer.Option("--block-size", help="tokens per KV block")
    ] = None,
    prefix_caching: Annotated[
        bool | None,
        typer.Option(
            "--enable-prefix-caching/--no-enable-prefix-caching",
            help="default: as the engine does for the model",
        ),
    ] = None,
    disable_hybrid_kv_cache_manager: Annotated[
        bool,
        typer.Option("--disable-hybrid-kv-cache-manager", help="windows and chunks are kept whole"),
    ] = False,
    mamba_cache_dtype: Annotated[
        str, typer.Option("--mamba-cache-dtype", help="of convolution states")
    ] = "auto",
    mamba_ssm_cache_dtype: Annotated[
        str, typer.Option("--mamba-ssm-cache-dtype", help="of recurrent states")
    ] = "auto",
    speculative_tokens: Annotated[
        int, typer.Option("--speculative-tokens", help="tokens that a drafter proposes per step")
    ] = 0,
    speculative_method: Annotated[
        str,
        typer.Option(
            "--speculative-method", help="mtp: by layers of the checkpoint; eagle3, ngram, ..."
        ),
    ] = "",
    speculative_model: Annotated[
        str,
        typer.Option("--speculative-model", help="a known model that drafts (see kvscale presets)"),
    ] = "",
    engine_version: Annotated[
        str | None,
        typer.Option("--engine-version", help="of the engine: 0.32; default: the newest"),
    ] = None,
    memory_utilization: Annotated[
        float | None,
        typer.Option(
            "--memory-utilization",
            "--gpu-memory-utilization",
            "--mem-fraction-static",
            help="share of device memory, 0 to 1",
        ),
    ] = None,
    kv_memory_gib: Annotated[
        float | None,
        typer.Option("--kv-memory-gib", help="KV memory per device, where known: no estimate"),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option("--calibrate", help="start-up log of the same build; - reads stdin"),
    ] = None,
    calibrate_line: Annotated[
        str | None, typer.Option("--calibrate-line", help="its lines, pasted")
    ] = None,
    calibrate_utilization: Annotated[
        float | None,
        typer.Option(
            "--calibrate-utilization",
            help="memory fraction of that start, where its log does not state it",
            metavar="FRACTION",
        ),
    ] = None,
    max_total_tokens: MaxTokensOption = None,
    enable_dp_attention: AttentionDpOption = False,
    swa_full_tokens_ratio: SwaRatioOption = None,
    mamba_full_memory_ratio: MambaRatioOption = None,
    max_mamba_cache_size: MambaSlotsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """KV capacity of one engine: blocks, tokens, and resident sequences by length."""
    shape = model_shape(config, model)
    device = device_named(gpu, "--gpu")
    if engine_version is not None and not VERSION.fullmatch(engine_version):
        fail(one_line(f"--engine-version is {engine_version!r}: give a release, such as 0.32"))
    engine = EngineConfig(
        kind=engine_named(engine_kind),
        version=engine_version,
        model=shape.name if isinstance(shape, ModelShape) else "",
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        data_parallel=data_parallel,
        memory_utilization_milli=_milli(memory_utilization),
        kv_cache_dtype=kv_cache_dtype,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        block_size=block_size,
        decode_context_parallel=decode_context_parallel,
        expert_parallel=expert_parallel,
        prefix_caching=prefix_caching,
        hybrid_kv_cache_manager=not disable_hybrid_kv_cache_manager,
        mamba_cache_dtype=mamba_cache_dtype,
        mamba_ssm_cache_dtype=mamba_ssm_cache_dtype,
        speculative_tokens=speculative_tokens,
        speculative_method=method_of(speculative_method, speculative_model),
        speculative_model=speculative_model,
    )
    if max_model_len == AUTO_LENGTH and engine.kind is not EngineKind.VLLM:
        fail(f"--max-model-len auto is no setting of {engine.kind.value}: give a length")
    engine = with_options(
        engine,
        max_total_tokens=max_total_tokens,
        attention_dp=enable_dp_attention,
        swa_ratio=swa_full_tokens_ratio,
        mamba_ratio=mamba_full_memory_ratio,
        mamba_slots=max_mamba_cache_size,
    )
    if kv_memory_gib is not None and (calibrate or calibrate_line):
        fail("--kv-memory-gib leaves nothing to calibrate: leave it or --calibrate out")
    boot = read_boot(calibrate, calibrate_line, calibrate_utilization)
    view = capacity_view(shape, engine, device, _bytes(kv_memory_gib), boot=boot)
    document = capacity_document(view)
    if isinstance(view.capacity, Refusal):
        refuse(view.capacity, document, output)
    count = engine.devices * engine.data_parallel
    title = f"{engine.model} on {count} x {device.product}, per engine"
    if engine.data_parallel > 1:
        title += f" ({engine.data_parallel} engines of {counted(engine.devices, 'device')})"
    emit(document, capacity_page(view, title), output)


def _milli(share: float | None) -> int | None:
    if share is None:
        return None
    if not 0 < share <= 1:
        fail(f"--memory-utilization is {share}: give a share above 0 and at most 1, such as 0.9")
    return max(1, round(share * 1000))


def _bytes(gib: float | None) -> int | None:
    if gib is None:
        return None
    if not (math.isfinite(gib) and 0 < gib <= MOST_GIB):
        fail(f"--kv-memory-gib is {gib}: give the GiB of KV memory on one device, such as 12.5")
    return max(1, round(gib * GIB))
