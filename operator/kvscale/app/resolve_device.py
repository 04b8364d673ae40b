"""The devices of a target: what its pods request, and what the nodes say those are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kvscale.app.inventory import Inventory
from kvscale.core.devices.device import Device
from kvscale.core.devices.labels import device_of_node, is_device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.inventory import PodNeeds
from kvscale.core.refusal import Refusal
from kvscale.core.spec import DeviceOverrides
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

Nodes = Inventory | Unknown
_MEND = "state targets[].devices.product (with .memory, if the device table lacks it)"


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """Devices that one pod requests.

    Attributes:
        resource: the extended resource; "" if it requests none.
        per_pod: of the whole pod.
        per_engine_container: of the container that runs the engine.
        contradictions: where the spec and the pod template disagree.
    """

    resource: str
    per_pod: int
    per_engine_container: int
    contradictions: tuple[str, ...] = ()


def count_devices(
    workload: WorkloadRecord, overrides: DeviceOverrides, container: str
) -> DeviceCount:
    """Devices that one pod requests; the spec's count wins over the template's.

    Args:
        workload: with its pod template.
        overrides: `targets[].devices`.
        container: the one that runs the engine; "" if not known.
    """
    requested = {n: a for n, a in workload.needs.requests.items() if a > 0 and is_device(n)}
    resource = overrides.resource_name or min(
        requested, key=lambda n: (-requested[n], n), default=""
    )
    in_template = workload.needs.requests.get(resource, 0)
    own = next((one for one in workload.containers if one.name == container), None)
    in_container = in_template if own is None else own.requests.get(resource, 0) or in_template
    lines = []
    if overrides.resource_name and requested and overrides.resource_name not in requested:
        lines.append(
            f"targets[].devices.resourceName is {overrides.resource_name}, the pod template "
            f"requests {', '.join(sorted(requested))}: the override is used"
        )
    if overrides.count is None:
        return DeviceCount(resource, in_template, in_container, tuple(lines))
    if in_template and overrides.count != in_template:
        lines.append(
            f"targets[].devices.count is {overrides.count}, the pod template requests "
            f"{in_template} {resource}: the override is used"
        )
    return DeviceCount(resource, overrides.count, overrides.count, tuple(lines))


def parallel_mismatch(engine: EngineConfig | Unknown, count: DeviceCount) -> tuple[str, ...]:
    """A line when the engine's parallelism and the pod's devices differ."""
    if isinstance(engine, Unknown) or not count.per_engine_container:
        return ()
    needed = engine.devices * engine.data_parallel
    if needed == count.per_engine_container:
        return ()
    factors = (
        f"tensorParallel {engine.tensor_parallel} x pipelineParallel {engine.pipeline_parallel} "
        f"x dataParallel {engine.data_parallel}"
    )
    effect = (
        "the engine spans several pods, or does not start"
        if needed > count.per_engine_container
        else "the others stay idle"
    )
    line = (
        f"the engine uses {needed} device{'s' if needed > 1 else ''} ({factors}), one pod requests "
        f"{count.per_engine_container} {count.resource}: {effect}"
    )
    return (line,)


def find_target_device(
    needs: PodNeeds, overrides: DeviceOverrides, nodes: Nodes, resource: str
) -> tuple[Device | Unknown, tuple[str, ...]]:
    """The device that a pod of the target gets, and what was assumed.

    The spec's product and memory win. Otherwise the nodes that admit the pod and offer the
    resource say it; without such a node, the pod's own node selector may. Where they differ, the
    device with the least memory counts: a ceiling must hold wherever the pod lands.
    """
    if overrides.product is not None:
        return _stated(overrides.product, overrides.memory_bytes), ()
    found, notes = _by_nodes(needs, nodes, resource)
    if overrides.memory_bytes is None:
        return found, notes
    evidence = "targets[].devices.memory"
    if isinstance(found, Unknown):
        product = resource or "device"
        return Device(product, overrides.memory_bytes, evidence=evidence), ()
    return replace(found, memory_bytes=overrides.memory_bytes, evidence=evidence), notes


def _stated(product: str, memory_bytes: int | None) -> Device | Unknown:
    device = find_device(product)
    if memory_bytes is None:
        if isinstance(device, Refusal):
            return Unknown("DeviceUnknown", f"targets[].devices.product: {device.message}")
        return device
    if isinstance(device, Refusal):
        return Device(product, memory_bytes, evidence="targets[].devices.memory")
    return replace(device, memory_bytes=memory_bytes, evidence="targets[].devices.memory")


def _by_nodes(
    needs: PodNeeds, nodes: Nodes, resource: str
) -> tuple[Device | Unknown, tuple[str, ...]]:
    if not resource:
        return Unknown(
            "NoDevices",
            "the pod template requests no device: state targets[].devices.resourceName, count and "
            "product, or request the devices in the pod template",
        ), ()
    selected = _selected(needs, resource)
    if isinstance(nodes, Unknown):
        if selected:
            return _smallest(selected, "its node selector names")
        return Unknown(
            "NoNodeAccess", f"nodes are not read ({nodes.message or nodes.reason}): {_MEND}"
        ), ()
    answers = nodes.devices(needs, resource)
    devices = [device for _, device in answers if isinstance(device, Device)]
    if devices:
        return _smallest(devices, "the nodes that admit the pod have")
    if selected:
        return _smallest(selected, "its node selector names")
    return _unclear(answers, resource), ()


def _unclear(answers: Sequence[tuple[str, Device | Unknown]], resource: str) -> Unknown:
    """Why no node tells the device: the first that offers the resource, or that none does."""
    for name, answer in answers:
        if isinstance(answer, Unknown) and answer.reason != "NoDevices":
            return Unknown(answer.reason, f"node {name}: {answer.message}")
    return Unknown(
        "NoDevices",
        f"no node that admits the pod offers {resource}, and its node selector names no device: "
        f"{_MEND}",
    )


_LABELS_THAT_TELL = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
)


def _selected(needs: PodNeeds, resource: str) -> list[Device]:
    """Devices that the pod's node selector or affinity names; for pools scaled to no node."""
    wanted: list[Mapping[str, str]] = [needs.node_selector]
    for term in needs.affinity_terms:
        named = [r for r in term if r.operator == "In" and r.key in _LABELS_THAT_TELL]
        fixed = {r.key: r.values[0] for r in term if r.operator == "In" and len(r.values) == 1}
        wanted += [
            {**fixed, **needs.node_selector, requirement.key: value}
            for requirement in named
            for value in requirement.values
        ]
    answers = [device_of_node(labels, {resource: 1}, resource) for labels in wanted]
    return [device for device in answers if isinstance(device, Device)]


def _smallest(devices: Sequence[Device], where: str) -> tuple[Device, tuple[str, ...]]:
    smallest = min(devices, key=lambda device: (device.memory_bytes, device.product))
    products = sorted({device.product for device in devices})
    if len(products) == 1:
        return smallest, ()
    note = (
        f"{where} {', '.join(products)}: sized for {smallest.product}, which has the least memory; "
        "a node selector or targets[].devices.product makes it definite"
    )
    return smallest, (note,)
