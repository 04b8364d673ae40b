"""A vLLM server's arguments as engine settings, and what of them cannot be read."""

import json
import re
from dataclasses import dataclass
from typing import Any

from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.launch import Container, Launch, version_of_image
from kvscale.core.engines.unread import MARK, shown
from kvscale.core.engines.vllm_flag_table import FLAGS, Flag, Kind
from kvscale.core.engines.vllm_flags import Stated, parse_value, read_flags
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class UnreadSetting:
    """A setting that the server has and that its arguments do not tell.

    Attributes:
        flag: as vLLM names it.
        field: of `EngineConfig`.
        overridable: whether `targets[].engine` has it.
        message: why it cannot be read, and the mend.
    """

    flag: str
    field: str
    overridable: bool
    message: str


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """The engine of a container, by its arguments.

    Attributes:
        container: its name.
        engine: the settings; the engine's own default (None, or the field's) where not stated.
        stated: fields of `engine` that the arguments state.
        served_model_name: the first name of `--served-model-name`; "" if not stated.
        port: of the HTTP server; None if not stated.
        unread: settings that cannot be read.
        notes: what a person should know, one sentence each.
    """

    container: str
    engine: EngineConfig
    stated: frozenset[str] = frozenset()
    served_model_name: str = ""
    port: int | None = None
    unread: tuple[UnreadSetting, ...] = ()
    notes: tuple[str, ...] = ()


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
        value = _value(flag, text)
        if isinstance(value, UnreadSetting):
            unread.append(value)
        elif value is None:
            notes.append(f"{flag.name} is {text}: the engine fits it to its memory")
        else:
            settings[flag.field] = value
    unread += _anywhere(stated, {*settings, *(one.field for one in unread)})
    notes += _notes(stated) + _environment(container)
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
        port=int(port) if re.fullmatch(r"[0-9]{1,5}", port) else None,
        unread=tuple(unread),
        notes=tuple(notes),
    )


def _value(flag: Flag, text: str) -> int | str | bool | UnreadSetting | None:
    """A flag's value; None for one that the engine finds by itself."""
    if MARK in text:
        return _unread(flag, f"{flag.name} is {shown(text)}, which cannot be read")
    try:
        return parse_value(flag.kind, text)
    except ValueError as error:
        return _unread(flag, f"{flag.name} cannot be read: {error}")


def _unread(flag: Flag, why: str) -> UnreadSetting:
    if flag.field == "model":
        mend = "state spec.model"
    elif flag.overridable:
        mend = f"state targets[].engine.{camel_case(flag.field)}"
    else:
        mend = "write its value into the arguments"
    return UnreadSetting(flag.name, flag.field, flag.overridable, f"{why}: {mend}")


def disaggregated(where: str, cause: str) -> Unknown:
    """The refusal of a prefill or decode worker."""
    return Unknown(
        "DisaggregatedServer",
        f"{where} is one side of disaggregated serving ({cause}): prefill and decode workers "
        "hold KV for different times, and are not sized yet: point the pool at a server that does "
        "both, or delete it and leave this one to another autoscaler",
    )


_DECISIVE = ("tensor_parallel", "memory_utilization_milli", "kv_cache_dtype", "max_model_len")
"""Fields without which an unreadable source of flags leaves the capacity open."""


def _anywhere(stated: Stated, known: set[str]) -> list[UnreadSetting]:
    """Settings that a config file or an unreadable list of flags may hold."""
    sources = [f"--config {shown(text)}" for text in [stated.values.get("--config", "")] if text]
    sources += [shown(word) for word in stated.open_ended]
    if not sources:
        return []
    why = f"may be set by {' and '.join(sources)}, which cannot be read"
    if "kv_cache_memory_bytes" in known:
        known = known | {"memory_utilization_milli"}
    return [
        _unread(flag, f"{flag.name} {why}")
        for flag in FLAGS
        if flag.field in _DECISIVE and flag.field not in known
    ]


def _local_data_parallel(stated: Stated, unread: list[UnreadSetting]) -> int | None:
    """Engines in this pod, where data-parallel ranks are spread over pods; None: as stated."""
    if "--data-parallel-rank" in stated.values:
        return 1
    text = stated.values.get("--data-parallel-size-local")
    if text is None:
        return None
    flag = Flag("--data-parallel-size-local", Kind.COUNT, "data_parallel", overridable=True)
    value = _value(flag, text)
    if isinstance(value, UnreadSetting):
        unread.append(value)
        return None
    return value if isinstance(value, int) else None


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
    ("--speculative-config", "the draft model's memory is not counted"),
    ("--speculative-model", "the draft model's memory is not counted"),
    ("--enable-lora", "the adapters' memory is not counted"),
    ("--cpu-offload-gb", "weights that are offloaded to the CPU are counted as on the device"),
    ("--hf-overrides", "the model's config.json is changed by it, which is not followed"),
    ("--decode-context-parallel-size", "KV split over ranks by it is not counted"),
    ("--prefill-context-parallel-size", "KV split over ranks by it is not counted"),
    ("--disable-hybrid-kv-cache-manager", "every layer then keeps the full length"),
    ("--headless", "this pod serves no HTTP of its own"),
    ("--nnodes", "the engine spans several pods"),
)


def _notes(stated: Stated) -> list[str]:
    return [
        f"{name} is set: {text}"
        for name, text in _NOTES
        if stated.values.get(name, "false") not in {"false", "0", "1"}
    ]


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


def camel_case(field: str) -> str:
    """A field of `EngineConfig` as the pool's spec spells it."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
