"""What a pod template says of the engine that it starts.

The result holds settings as stated (None where they are not), and names every setting that is
stated but cannot be read: such a value is never taken for a default.
"""

import re
from collections.abc import Sequence

from kvscale.core.engines.launch import SGLANG, VLLM, Container, Launch, find_launches
from kvscale.core.engines.unread import shown
from kvscale.core.engines.vllm_arguments import (
    ServerArguments,
    UnreadSetting,
    disaggregated,
    read_vllm,
)
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
        read, Unknown(EngineNotSupported) for another server than vLLM,
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
    if launch.engine != VLLM:
        return _other_engine(launch, where)
    return read_vllm(container, launch)


def _other_engine(launch: Launch, where: str) -> Unknown:
    words = " ".join(launch.arguments).replace("=", " ")
    mode = re.search(r"--disaggregation[-_]mode\s+(prefill|decode)\b", words)
    if launch.engine == SGLANG and mode is not None:
        return disaggregated(where, f"--disaggregation-mode is {mode[1]}")
    return Unknown(
        "EngineNotSupported",
        f"{where} runs {launch.engine}; the memory rules of vLLM are the only ones known: "
        "point the pool at a vLLM server, or delete it and leave this one to another autoscaler",
    )
