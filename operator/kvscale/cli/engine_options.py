"""`--engine` and the settings that one engine alone has."""

from dataclasses import replace
from typing import Annotated

import typer

from kvscale.cli.errors import fail
from kvscale.cli.output import one_line
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions, TensorRtLlmOptions

PPM = 1_000_000

EngineOption = Annotated[
    str, typer.Option("--engine", help="vllm, sglang or trtllm, in any spelling of its name")
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-total-tokens", help="SGLang, TensorRT-LLM: a cap on the pool, in tokens"),
]
AttentionDpOption = Annotated[
    bool,
    typer.Option(
        "--enable-dp-attention",
        help="SGLang, TensorRT-LLM: --data-parallel ranks share out --tensor-parallel devices",
    ),
]
SwaRatioOption = Annotated[
    float | None,
    typer.Option("--swa-full-tokens-ratio", help="SGLang: window tokens per full token"),
]
MambaRatioOption = Annotated[
    float | None,
    typer.Option("--mamba-full-memory-ratio", help="SGLang: memory of states to memory of KV"),
]
MambaSlotsOption = Annotated[
    int | None, typer.Option("--max-mamba-cache-size", help="SGLang: states, counted")
]


def engine_named(text: str) -> EngineKind:
    """The engine of `--engine`; an unknown one ends the command."""
    kind = EngineKind.named(text)
    if kind is None:
        fail(one_line(f"--engine is {text[:40]!r}: give vllm, sglang or trtllm"))
    return kind


def with_options(
    engine: EngineConfig,
    *,
    max_total_tokens: int | None,
    attention_dp: bool,
    swa_ratio: float | None,
    mamba_ratio: float | None,
    mamba_slots: int | None,
) -> EngineConfig:
    """The engine with what it alone has; another engine's setting ends the command."""
    stated = {
        "--swa-full-tokens-ratio": swa_ratio,
        "--mamba-full-memory-ratio": mamba_ratio,
        "--max-mamba-cache-size": mamba_slots,
    }
    if engine.kind is not EngineKind.SGLANG:
        _refuse(engine.kind, stated)
    if engine.kind is EngineKind.VLLM:
        _refuse(
            engine.kind,
            {
                "--max-total-tokens": max_total_tokens,
                "--enable-dp-attention": attention_dp or None,
            },
        )
        return engine
    if attention_dp:
        ranks, devices = engine.data_parallel, engine.tensor_parallel
        if ranks < 1 or devices % ranks:
            fail(f"--data-parallel {ranks} must divide --tensor-parallel {devices}")
        engine = replace(engine, tensor_parallel=devices // ranks)
    if engine.kind is EngineKind.TENSORRT_LLM:
        options = TensorRtLlmOptions(max_tokens=max_total_tokens, attention_dp=attention_dp)
        return replace(engine, options=options)
    return replace(
        engine,
        options=SGLangOptions(
            max_total_tokens=max_total_tokens,
            dp_attention=attention_dp and engine.data_parallel > 1,
            swa_ratio_ppm=_scaled(swa_ratio, PPM, "--swa-full-tokens-ratio"),
            mamba_ratio_milli=_scaled(mamba_ratio, 1000, "--mamba-full-memory-ratio"),
            max_mamba_cache_size=mamba_slots,
            speculative=_algorithm(engine.speculative_method),
        ),
    )


_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "NGRAM", "STANDALONE", "DFLASH")
"""Of `--speculative-algorithm` (sglang 0.5.23 srt/speculative/spec_info.py)."""


def _algorithm(method: str) -> str:
    """SGLang's name of a method; layers of the checkpoint are its NEXTN."""
    name = {"MTP": "NEXTN"}.get(method.upper(), method.upper())
    if name and name not in _ALGORITHMS:
        fail(
            one_line(
                f"--speculative-method is {method[:40]!r}; SGLang has mtp, "
                f"{', '.join(_ALGORITHMS).lower()}"
            )
        )
    return name


def _refuse(kind: EngineKind, stated: dict[str, float | None]) -> None:
    for name, value in stated.items():
        if value is not None:
            fail(f"{name} is no setting of {kind.value}: leave it out, or name another --engine")


def _scaled(value: float | None, scale: int, name: str) -> int | None:
    if value is None:
        return None
    if not 0 < value < PPM:
        fail(f"{name} is {value}: give a number above 0")
    return max(1, round(value * scale))
