"""What a container's arguments tell of its server, whichever engine it is."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.flag import Flag
from kvscale.core.engines.flag_reading import Stated, parse_value
from kvscale.core.engines.unread import MARK, shown
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class UnreadSetting:
    """A setting that the server has and that its arguments do not tell.

    Attributes:
        flag: as the engine names it.
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


def flag_value(flag: Flag, text: str) -> int | str | bool | UnreadSetting | None:
    """A flag's value; None for one that the engine finds by itself."""
    if MARK in text:
        return unread_setting(flag, f"{flag.name} is {shown(text)}, which cannot be read")
    try:
        return parse_value(flag.kind, text)
    except ValueError as error:
        return unread_setting(flag, f"{flag.name} cannot be read: {error}")


def unread_setting(flag: Flag, why: str) -> UnreadSetting:
    """A setting that cannot be read, with the mend."""
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


def undecided(
    stated: Stated,
    flags: Iterable[Flag],
    known: Collection[str],
    files: Iterable[str] = ("--config",),
) -> list[UnreadSetting]:
    """Settings that a config file or an unreadable list of flags may hold.

    Args:
        stated: what the command line states.
        flags: that are read.
        known: fields that are stated all the same.
        files: flags that name a file with further settings.
    """
    sources = [f"{name} {shown(stated.values[name])}" for name in files if stated.values.get(name)]
    sources += [shown(word) for word in stated.open_ended]
    if not sources:
        return []
    why = f"may be set by {' and '.join(sources)}, which cannot be read"
    if "kv_cache_memory_bytes" in known:
        known = {*known, "memory_utilization_milli"}
    return [
        unread_setting(flag, f"{flag.name} {why}")
        for flag in flags
        if flag.field in _DECISIVE and flag.field not in known
    ]


def notes_of(stated: Stated, told: Iterable[tuple[str, str]]) -> list[str]:
    """What a person should know of flags that are set but not followed.

    Args:
        stated: what the command line states.
        told: flags, each with what to say of it.
    """
    return [
        f"{name} is set: {text}"
        for name, text in told
        if stated.values.get(name, "false") not in {"false", "0", "1"}
    ]


def camel_case(field: str) -> str:
    """A field of `EngineConfig` as the pool's spec spells it."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def http_port(text: str) -> int | None:
    """The port of a flag's text; None where it is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None
