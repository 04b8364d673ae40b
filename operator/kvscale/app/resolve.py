"""From a pool's spec, its workload and the nodes to shape, engine and device.

What the spec states wins over what the server's arguments and the nodes say, and a difference
between the two is shown. What cannot be known is Unknown, with the field that would mend it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kvscale.app.inventory import Inventory
from kvscale.app.resolve_device import count_devices, find_target_device, parallel_mismatch
from kvscale.app.resolve_engine import find_engine
from kvscale.app.resolve_model import find_shape
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.inventory import NodeState
from kvscale.core.model.shape import ModelShape
from kvscale.core.spec import PoolSpec
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a pool serves, with what, on what.

    Attributes:
        shape, engine, device: Unknown with the reason and the field that would mend it.
        device_resource: extended resource that the pod requests; "" if none.
        devices_per_pod: how many of it one pod requests.
        served_model_name: the name in the engine's metrics, as far as the arguments state it.
        port: of the server; None if not stated.
        contradictions: where two sources disagree, one sentence each.
        notes: what was assumed or is not counted, one sentence each.
    """

    shape: ModelShape | Unknown
    engine: EngineConfig | Unknown
    device: Device | Unknown
    device_resource: str = ""
    devices_per_pod: int = 0
    served_model_name: str = ""
    port: int | None = None
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolve(
    spec: PoolSpec,
    workload: WorkloadRecord,
    nodes: Inventory | Sequence[NodeState] | Unknown,
    config_map: Mapping[str, str] | Unknown | None = None,
) -> Resolution:
    """Shape, engine and device of a pool; pure.

    Args:
        spec: of the pool.
        workload: that it scales.
        nodes: of the cluster (an Inventory where several pools ask); Unknown in an install
            without access to nodes.
        config_map: data of the ConfigMap that `spec.model` names; None when it names none.
    """
    engine = find_engine(workload, spec.target)
    shape, shape_notes = find_shape(spec.model, engine.arguments, config_map)
    if isinstance(shape, Unknown):
        shape = _root_cause(shape, engine.config)
    container = "" if engine.arguments is None else engine.arguments.container
    count = count_devices(workload, spec.target.devices, container)
    inventory = nodes if isinstance(nodes, Inventory | Unknown) else Inventory(nodes)
    device, device_notes = find_target_device(
        workload.needs, spec.target.devices, inventory, count.resource
    )
    contradictions = (
        *engine.contradictions,
        *count.contradictions,
        *parallel_mismatch(engine.config, count),
    )
    return Resolution(
        shape=_placed(shape),
        engine=_placed(engine.config),
        device=_placed(device),
        device_resource=count.resource,
        devices_per_pod=count.per_pod,
        served_model_name="" if engine.arguments is None else engine.arguments.served_model_name,
        port=None if engine.arguments is None else engine.arguments.port,
        contradictions=tuple(_at_target(line) for line in contradictions),
        notes=tuple(_at_target(line) for line in (*engine.notes, *shape_notes, *device_notes)),
    )


NO_SERVER = ("DisaggregatedServer", "EngineNotSupported")
"""Reasons why a server is none for kvscale: naming its model would not help."""


def _root_cause(shape: Unknown, engine: EngineConfig | Unknown) -> Unknown:
    return engine if isinstance(engine, Unknown) and engine.reason in NO_SERVER else shape


def _at_target(text: str) -> str:
    """The text with the target's place in the spec, which whoever wrote it does not know."""
    return text.replace("targets[].", "targets[0].")


def _placed(value: T | Unknown) -> T | Unknown:
    return Unknown(value.reason, _at_target(value.message)) if isinstance(value, Unknown) else value
