"""The engine of a target: the server's arguments, overridden by what the pool's spec states."""

from dataclasses import dataclass, fields, replace
from typing import Any

from kvscale.core.devices.labels import is_device
from kvscale.core.engines.arguments import Container, ServerArguments, choose_server
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.server_arguments import camel_case
from kvscale.core.spec import EngineOverrides, TargetSpec
from kvscale.core.values import Unknown
from kvscale.records import ContainerRecord, WorkloadRecord

_PARALLEL = ("tensor_parallel", "pipeline_parallel", "data_parallel")


@dataclass(frozen=True, slots=True)
class FoundEngine:
    """The engine, and the arguments that it was read from (None: they cannot be read)."""

    config: EngineConfig | Unknown
    arguments: ServerArguments | None
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find_engine(workload: WorkloadRecord, target: TargetSpec) -> FoundEngine:
    """The engine that the workload's pods run."""
    containers = [_container(one) for one in _candidates(workload, target.container_name)]
    server = choose_server(containers, target.container_name)
    if isinstance(server, Unknown):
        return _by_overrides(server, target.engine)
    stated = _stated(target.engine)
    missing = [one for one in server.unread if one.field not in stated and one.field != "model"]
    if missing:
        message = "; ".join(one.message for one in missing)
        return FoundEngine(Unknown("ArgumentUnread", message), server, notes=server.notes)
    return FoundEngine(
        config=_overridden(server.engine, stated),
        arguments=server,
        contradictions=tuple(_contradictions(server, stated)),
        notes=server.notes,
    )


def _overridden(engine: EngineConfig, stated: dict[str, Any]) -> EngineConfig:
    """The engine as the spec wants it; another kind has none of this one's own options."""
    found = replace(engine, **stated)
    return found if found.kind is engine.kind else replace(found, options=None)


def _candidates(workload: WorkloadRecord, named: str) -> tuple[ContainerRecord, ...]:
    """Containers that may run the engine: those that request devices, if any does."""
    with_devices = tuple(
        one
        for one in workload.containers
        if any(amount > 0 and is_device(name) for name, amount in one.requests.items())
    )
    return workload.containers if named or not with_devices else with_devices


def _container(record: ContainerRecord) -> Container:
    return Container(
        name=record.name,
        image=record.image,
        command=record.command,
        args=record.args,
        env={variable.name: variable.value for variable in record.env},
    )


def _stated(overrides: EngineOverrides) -> dict[str, Any]:
    """The overrides that the spec states, by field of `EngineConfig`."""
    names = [field.name for field in fields(overrides)]
    return {
        name: getattr(overrides, name) for name in names if getattr(overrides, name) is not None
    }


def _by_overrides(server: Unknown, overrides: EngineOverrides) -> FoundEngine:
    """The engine when the arguments do not tell it: by the spec alone, if it names the kind."""
    if overrides.kind is None or server.reason not in {"EngineUnknown", "EngineNotSupported"}:
        return FoundEngine(server, None)
    config = EngineConfig(**_stated(overrides))
    line = f"targets[].engine.kind is {overrides.kind}: {server.message}; the override is used"
    if server.reason == "EngineNotSupported":
        return FoundEngine(config, None, contradictions=(line,))
    note = (
        f"the engine is as targets[].engine states it, the rest at its defaults: {server.message}"
    )
    return FoundEngine(config, None, notes=(note,))


def _contradictions(server: ServerArguments, stated: dict[str, Any]) -> list[str]:
    lines = []
    unread = {one.field for one in server.unread}
    for name, override in stated.items():
        said = getattr(server.engine, name)
        if override == said or _same_version(name, override, said):
            continue
        told = name in server.stated or name == "kind" or (name == "version" and said is not None)
        where = "the image's tag" if name == "version" else "the server's arguments"
        if told:
            text = f"{where} say{'s' if name == 'version' else ''} {said}"
        elif name in _PARALLEL and name not in unread:
            text = f"{where} do not state it, which means {said}"
        else:
            continue
        lines.append(
            f"targets[].engine.{camel_case(name)} is {override}, {text}: the override is used"
        )
    return lines


def _same_version(name: str, override: Any, said: Any) -> bool:
    """Whether "0.11" is stated of a "0.11.0"."""
    return name == "version" and said is not None and f"{said}.".startswith(f"{override}.")
