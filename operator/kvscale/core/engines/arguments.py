"""What a pod template says of the engine that it starts.

The result holds settings as stated (None where they are not), and names every setting that is
stated but cannot be read: such a value is never taken for a default. An engine's reader is loaded
when a container starts that engine.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType

from kvscale.core.engines.launch import (
    SGLANG,
    TENSORRT_LLM,
    VLLM,
    Container,
    Launch,
    find_launches,
)
from kvscale.core.engines.server_arguments import ServerArguments, UnreadSetting
from kvscale.core.engines.unread import shown
from kvscale.core.values import Unknown

__all__ = ["Container", "ServerArguments", "UnreadSetting", "choose_server", "read_arguments"]


def choose_server(containers: Sequence[Container], named: str = "") -> ServerArguments | Unknown:
    """The engine among a pod's containers, or in the one that is named.

    Returns:
        Unknown(ContainerNotFound), or the reason of `read_arguments`.
    """
    if named:
        found = next((one for one in containers if one.name == named), None)
        if found is None:
            names = ", ".join(one.name for one in containers) or "none"
            return Unknown(
                "ContainerNotFound",
                f"targets[].containerName is {named!r}, the pod template's containers are {names}",
            )
        return read_arguments(found)
    read = [read_arguments(container) for container in containers]
    servers = [one for one in read if isinstance(one, ServerArguments)]
    if len(servers) == 1:
        return servers[0]
    if servers:
        names = " and ".join(server.container for server in servers)
        return Unknown(
            "EngineUnknown",
            f"containers {names} each start an engine: name one in targets[].containerName",
        )
    unknown = [one for one in read if isinstance(one, Unknown)]
    rank = ("DisaggregatedServer", "EngineNotSupported", "EngineUnknown")
    unknown.sort(key=lambda one: rank.index(one.reason))
    return unknown[0] if unknown else Unknown("EngineUnknown", "the pod has no container")


def read_arguments(container: Container) -> ServerArguments | Unknown:
    """The engine that a container starts.

    Returns:
        Unknown(EngineUnknown) when no server is found or it is started by a script that cannot be
        read, Unknown(EngineNotSupported) for a server whose rules are not known,
        Unknown(DisaggregatedServer) for a prefill or decode worker.
    """
    started = find_launches(container)
    where = f"container {container.name}"
    if len(started.launches) > 1:
        return Unknown(
            "EngineUnknown",
            f"{where} starts {len(started.launches)} servers, depending on what cannot be read: "
            "state targets[].engine",
        )
    if not started.launches:
        what = started.scripts[-1] if started.scripts else started.summary
        return Unknown(
            "EngineUnknown",
            f"{where} starts {shown(what)}, in which no engine can be read: state "
            "targets[].engine.kind and its settings, or start the engine by its own command",
        )
    launch = started.launches[0]
    if launch.engine in _READERS:
        return _reader(launch.engine)(container, launch)
    return Unknown(
        "EngineNotSupported",
        f"{where} runs {launch.engine}; the memory rules of {', '.join(_READERS)} are the only "
        "ones known: point the pool at one of these servers, or delete it and leave this one to "
        "another autoscaler",
    )


Reader = Callable[[Container, Launch], ServerArguments | Unknown]

_READERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        VLLM: ("kvscale.core.engines.vllm.arguments", "read_vllm"),
        SGLANG: ("kvscale.core.engines.sglang.arguments", "read_sglang"),
        TENSORRT_LLM: ("kvscale.core.engines.trtllm.arguments", "read_tensorrt_llm"),
    }
)


@cache
def _reader(engine: str) -> Reader:
    module, function = _READERS[engine]
    found: Reader = getattr(import_module(module), function)
    return found
