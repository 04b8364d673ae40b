"""A vLLM server's arguments as engine settings, and what of them cannot be read."""

import json
import re
from typing import Any

from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.flag_reading import Stated, read_flags
from kvscale.core.engines.launch import Container, Launch, version_of_image
from kvscale.core.engines.server_arguments import (
    ServerArguments,
    UnreadSetting,
    disaggregated,
    flag_value,
    http_port,
    notes_of,
    undecided,
)
from kvscale.core.engines.unread import MARK
from kvscale.core.engines.vllm.drafting import method_of
from kvscale.core.engines.vllm.flag_table import FLAGS, Flag, Kind
from kvscale.core.values import Unknown


def read_vllm(container: Container, launch: Launch) -> ServerArguments | Unknown:
    """The settings of a vLLM server; Unknown(DisaggregatedServer) for a KV producer or consumer."""
    stated = read_flags(launch.arguments)
    role = _transfer_role(stated)
    if role in {"kv_producer", "kv_consumer"}:
        return disaggregated(f"container {container.name}", f"kv_role is {role}")
    if stated.positional:
        stated.values["--model"] = stated.positional[0]
    settings: dict[str, Any] = {}
    unread: list[UnreadSetting] = []
    notes = list(stated.problems)
    for flag in FLAGS:
        text = stated.values.get(flag.name)
        if not flag.field or text is None:
            continue
        value = flag_value(flag, text)
        if isinstance(value, UnreadSetting):
            unread.append(value)
        elif value is None:
            notes.append(f"{flag.name} is {text}: the engine fits it to its memory")
        else:
            settings[flag.field] = value
    settings |= _speculation(stated, notes)
    if stated.values.get("--disable-hybrid-kv-cache-manager", "false") == "true":
        settings["hybrid_kv_cache_manager"] = False
    unread += undecided(stated, FLAGS, {*settings, *(one.field for one in unread)})
    notes += notes_of(stated, _NOTES) + _environment(container)
    local = _local_data_parallel(stated, unread)
    if local is not None:
        settings["data_parallel"] = local
        unread = [one for one in unread if one.field != "data_parallel"]
    served = stated.values.get("--served-model-name", "")
    port = stated.values.get("--port", "")
    return ServerArguments(
        container=container.name,
        engine=EngineConfig(
            kind=EngineKind.VLLM, version=version_of_image(container.image), **settings
        ),
        stated=frozenset(settings),
        served_model_name="" if MARK in served else served,
        port=http_port(port),
        unread=tuple(unread),
        notes=tuple(notes),
    )


def _local_data_parallel(stated: Stated, unread: list[UnreadSetting]) -> int | None:
    """Engines in this pod, where data-parallel ranks are spread over pods; None: as stated."""
    if "--data-parallel-rank" in stated.values:
        return 1
    text = stated.values.get("--data-parallel-size-local")
    if text is None:
        return None
    flag = Flag("--data-parallel-size-local", Kind.COUNT, "data_parallel", overridable=True)
    value = flag_value(flag, text)
    if isinstance(value, UnreadSetting):
        unread.append(value)
        return None
    return value if isinstance(value, int) else None


MOST_DRAFTS = 1 << 10
MOST_NAME = 256


def _speculation(stated: Stated, notes: list[str]) -> dict[str, Any]:
    """Method, tokens and drafter of --speculative-config, its keys, or their short forms."""
    text = stated.values.get("--speculative-config", "")
    dotted = {
        key: stated.values.get(f"--speculative-config.{key}") or stated.values.get(short)
        for key, short in _SHORT.items()
    }
    try:
        config = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        notes.append("--speculative-config cannot be read: speculation is not counted")
        return {}
    config = config if isinstance(config, dict) else {}
    method = dotted["method"] or config.get("method") or ""
    model = dotted["model"] or config.get("model") or ""
    tokens = dotted[_DRAFT_TOKENS] or config.get(_DRAFT_TOKENS) or 0
    if not text and not any(dotted.values()):
        return {}
    number = int(tokens) if re.fullmatch(r"-?\d{1,6}", str(tokens), re.ASCII) else 0
    method = method.lower()[:40] if isinstance(method, str) else ""
    model = model[:MOST_NAME] if isinstance(model, str) else ""
    notes += [
        f"--speculative-config: its {key} is not followed, the drafter is counted as it is stored"
        for key in ("quantization", "kv_cache_dtype")
        if config.get(key)
    ]
    if not method and not model:
        notes.append("--speculative-config names no method and no model: nothing is counted for it")
    return {
        "speculative_method": method_of(method, model),
        "speculative_model": model,
        "speculative_tokens": min(number, MOST_DRAFTS),
    }


_DRAFT_TOKENS = "num_speculative_tokens"
_SHORT = {"method": "--spec-method", "model": "--spec-model", _DRAFT_TOKENS: "--spec-tokens"}
"""Short forms of the keys, from 0.22.0 on (vllm v0.32.0 engine/arg_utils.py)."""


def _transfer_role(stated: Stated) -> str:
    """`kv_role` of --kv-transfer-config; "" if there is none."""
    dotted = stated.values.get("--kv-transfer-config.kv_role")
    text = stated.values.get("--kv-transfer-config", "")
    if dotted is not None:
        return dotted
    try:
        config = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        match = re.search(r"[\"']?kv_role[\"']?\s*:\s*[\"']?(kv_\w+)", text)
        return match[1] if match is not None else ""
    role = config.get("kv_role", "") if isinstance(config, dict) else ""
    return role if isinstance(role, str) else ""


_NOTES = (
    ("--speculative-model", "the draft model's memory is not counted"),
    ("--enable-lora", "the adapters' memory is not counted"),
    ("--cpu-offload-gb", "weights that are offloaded to the CPU are counted as on the device"),
    ("--hf-overrides", "the model's config.json is changed by it, which is not followed"),
    ("--prefill-context-parallel-size", "KV split over ranks by it is not counted"),
    ("--headless", "this pod serves no HTTP of its own"),
    ("--nnodes", "the engine spans several pods"),
)


_ENVIRONMENT = (
    ("VLLM_USE_V1", "0", "the V0 engine has other memory rules"),
    (
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        "0",
        "CUDA graphs then come out of the memory left free, not of the KV cache",
    ),
    ("VLLM_PP_LAYER_PARTITION", "", "layers are split over the stages by it, not evenly"),
    ("VLLM_CPU_KVCACHE_SPACE", "", "the CPU backend has other memory rules"),
)


def _environment(container: Container) -> list[str]:
    notes = []
    for name, value, text in _ENVIRONMENT:
        said = container.env.get(name)
        if name in container.env and (not value or said == value):
            notes.append(f"{name} is {said if said is not None else 'set'}: {text}")
    return notes
