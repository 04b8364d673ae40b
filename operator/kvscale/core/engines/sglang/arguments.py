"""An SGLang server's arguments as engine settings, and what of them cannot be read."""

import re
from dataclasses import replace
from typing import Any

from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.flag import Flag, Kind
from kvscale.core.engines.flag_reading import Stated, read_flags
from kvscale.core.engines.launch import SGLANG, Container, Launch, version_of_image
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.engines.server_arguments import (
    ServerArguments,
    UnreadSetting,
    disaggregated,
    flag_value,
    http_port,
    notes_of,
    undecided,
    unread_setting,
)
from kvscale.core.engines.sglang.flag_table import FLAGS, OPTIONS, SGLANG_FLAGS
from kvscale.core.engines.unread import MARK, shown
from kvscale.core.values import Unknown

UNCHUNKED_TOKENS = 16_384
"""Default of `--max-prefill-tokens`, the budget of a prefill that is not cut into chunks."""


def read_sglang(container: Container, launch: Launch) -> ServerArguments | Unknown:
    """The settings of an SGLang server; Unknown(DisaggregatedServer) for one side of P/D."""
    stated = read_flags(launch.arguments, SGLANG_FLAGS)
    mode = stated.values.get("--disaggregation-mode", "")
    if mode in {"prefill", "decode"}:
        return disaggregated(f"container {container.name}", f"--disaggregation-mode is {mode}")
    if stated.positional:
        stated.values.setdefault("--model-path", stated.positional[0])
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    unread: list[UnreadSetting] = []
    for flags, into in ((FLAGS, settings), (OPTIONS, options)):
        for flag in flags:
            text = stated.values.get(flag.name)
            if text is not None:
                _read(flag, text, into, unread)
    _switches(stated, settings, options)
    _ratios(stated, options, unread)
    named = frozenset(settings)
    unread += undecided(stated, FLAGS, {*settings, *(one.field for one in unread)})
    notes = [*stated.problems, *notes_of(stated, _NOTES), *_environment(container)]
    engine = EngineConfig(
        kind=EngineKind.SGLANG, version=version_of_image(container.image, SGLANG), **settings
    )
    engine = replace(engine, options=SGLangOptions(**options))
    refused = _attention_parallel(engine)
    if isinstance(refused, UnreadSetting):
        unread.append(refused)
    else:
        engine = refused
    served = stated.values.get("--served-model-name", "")
    return ServerArguments(
        container=container.name,
        engine=engine,
        stated=named,
        served_model_name="" if MARK in served else served,
        port=http_port(stated.values.get("--port", "")),
        unread=tuple(unread),
        notes=tuple(notes),
    )


def _read(flag: Flag, text: str, into: dict[str, Any], unread: list[UnreadSetting]) -> None:
    value = flag_value(flag, text)
    if isinstance(value, UnreadSetting):
        unread.append(value)
    elif value is not None:
        into[flag.field] = value
    elif flag.name == "--chunked-prefill-size":
        into[flag.field] = UNCHUNKED_TOKENS


def _on(stated: Stated, name: str) -> bool:
    return stated.values.get(name) == "true"


def _switches(stated: Stated, settings: dict[str, Any], options: dict[str, Any]) -> None:
    """What is a switch, or only matters as one of a few words."""
    if _on(stated, "--disable-radix-cache"):
        settings["prefix_caching"] = False
    algorithm = stated.values.get("--speculative-algorithm", "")
    if algorithm and MARK not in algorithm and algorithm.lower() != "none":
        options["speculative"] = algorithm.upper()
    options["deepep"] = stated.values.get("--moe-a2a-backend") == "deepep"
    options["hybrid_swa"] = not _on(stated, "--disable-hybrid-swa-memory")
    options["overlap"] = not _on(stated, "--disable-overlap-schedule")
    if _on(stated, "--enable-piecewise-cuda-graph"):
        options["prefill_graphs"] = True
    if _on(stated, "--disable-piecewise-cuda-graph"):
        options["prefill_graphs"] = False


def _ratios(stated: Stated, options: dict[str, Any], unread: list[UnreadSetting]) -> None:
    """Ratios that may be above 1, or have more digits than thousandths."""
    for name, field, scale in (
        ("--mamba-full-memory-ratio", "mamba_ratio_milli", 1_000),
        ("--swa-full-tokens-ratio", "swa_ratio_ppm", 1_000_000),
    ):
        text = stated.values.get(name)
        if text is None:
            continue
        if re.fullmatch(r"\d{1,4}(\.\d{1,12})?|\.\d{1,12}", text, re.ASCII) and float(text) > 0:
            options[field] = max(1, int(float(text) * scale + 1e-6))
        else:
            flag = Flag(name, Kind.TEXT, field)
            unread.append(unread_setting(flag, f"{name} is {shown(text)}, no number above 0"))


def _attention_parallel(engine: EngineConfig) -> EngineConfig | UnreadSetting:
    """The engine with attention DP told apart: each of its ranks is an engine of its own.

    sglang 0.5.23 layers/dp_attention.py, compute_dp_attention_world_info: attention is split over
    tp / dp devices, and each such group has its own pool.
    """
    options = engine.options
    if not isinstance(options, SGLangOptions) or not options.dp_attention:
        return engine
    tensor, data = engine.tensor_parallel, engine.data_parallel
    if data == 1:
        return replace(engine, options=replace(options, dp_attention=False))
    if tensor % data:
        flag = Flag("--dp-size", Kind.COUNT, "data_parallel", overridable=True)
        return unread_setting(
            flag, f"--dp-size {data} does not divide --tp-size {tensor}, as attention DP needs"
        )
    return replace(engine, tensor_parallel=tensor // data)


_NOTES = (
    ("--enable-lora", "the adapters' memory is not counted"),
    ("--cpu-offload-gb", "weights that are offloaded to the CPU are counted as on the device"),
    ("--json-model-override-args", "the model's config.json is changed by it; not followed"),
    ("--enable-hierarchical-cache", "tokens in host memory add nothing to the device's pool"),
    ("--nnodes", "the engine spans several pods"),
    ("--enable-unified-memory", "pools that share one buffer are counted as if they were apart"),
)


_ENVIRONMENT = (
    (
        "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING",
        "the pool is sized after the graphs are captured, by a rule that is not followed",
    ),
    ("SGLANG_CI_SMALL_KV_SIZE", "the pool's size is set by it"),
)


def _environment(container: Container) -> list[str]:
    return [
        f"{name} is set: {text}"
        for name, text in _ENVIRONMENT
        if container.env.get(name, "0") not in {"0", "false", "False", ""}
    ]
