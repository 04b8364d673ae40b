"""The device of a node, from what the node says of itself.

Read in this order: GPU feature discovery (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery),
GKE's accelerator label, Karpenter's instance labels, the instance type. A device that several pods
share is no device of its own: its memory is not theirs to plan with. Devices of other vendors are
named and not guessed.
"""

from collections.abc import Mapping
from dataclasses import replace

from kvscale.core.devices.device import Device
from kvscale.core.devices.feature_discovery import (
    MEND,
    NVIDIA_GPU,
    Labels,
    discovered,
    integer,
    known_device,
    mig_prefix,
    mixed_slice,
)
from kvscale.core.devices.instance_types import INSTANCE_TYPES
from kvscale.core.devices.mig import Profile, profile_of_resource
from kvscale.core.devices.table import Card, find_card, find_device
from kvscale.core.refusal import Refusal
from kvscale.core.values import Unknown

_GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
_GKE_NAMES = {
    "nvidia-tesla-a100": "NVIDIA-A100-SXM4-40GB",
    "nvidia-tesla-v100": "Tesla-V100-SXM2-16GB",
}
"""GKE's names that say less than they mean (GKE documentation, "Run GPUs in Standard pools")."""

_OTHER_VENDORS = {
    "amd.com/gpu": ("AMD GPU", ("amd.com/gpu.product-name", "amd.com/gpu.device-id")),
    "habana.ai/gaudi": ("Intel Gaudi", ()),
    "gpu.intel.com/i915": ("Intel GPU", ()),
    "gpu.intel.com/xe": ("Intel GPU", ()),
    "google.com/tpu": ("Google TPU", ("cloud.google.com/gke-tpu-accelerator",)),
    "aws.amazon.com/neuron": ("AWS Neuron", ("karpenter.k8s.aws/instance-accelerator-name",)),
    "aws.amazon.com/neuroncore": ("AWS Neuron", ("karpenter.k8s.aws/instance-accelerator-name",)),
    "huawei.com/ascend-1980": ("Huawei Ascend", ()),
    "huawei.com/Ascend910": ("Huawei Ascend", ()),
}
DEVICE_RESOURCES = (NVIDIA_GPU, *_OTHER_VENDORS)
"""Extended resources that count accelerators; `nvidia.com/mig-*` comes on top."""


def device_of_node(
    labels: Labels, allocatable: Mapping[str, int], resource: str = NVIDIA_GPU
) -> Device | Unknown:
    """The device that one unit of `resource` is on this node.

    Args:
        labels: of the node.
        allocatable: of the node; only the accelerators in it matter.
        resource: the extended resource that the pod requests.

    Returns:
        Unknown(NoDevices) when the node offers none, Unknown(SharedDevice) when pods share one,
        Unknown(DeviceUnknown) when the labels do not tell which device it is.
    """
    offered = allocatable.get(resource, 0)
    if offered <= 0:
        others = sorted(name for name, n in allocatable.items() if n > 0 and is_device(name))
        hint = f"; it offers {', '.join(others)}" if others else ""
        return Unknown("NoDevices", f"the node offers no {resource}{hint}")
    profile = profile_of_resource(resource)
    if resource != NVIDIA_GPU and profile is None:
        return _other_vendor(labels, resource)
    shared = _shared(labels, offered, profile)
    if shared:
        return Unknown("SharedDevice", f"{shared}: {resource} is no device of its own; {MEND}")
    if profile is not None:
        return mixed_slice(labels, profile)
    return (
        discovered(labels)
        or _gke(labels)
        or _karpenter(labels)
        or _instance_type(labels)
        or Unknown("DeviceUnknown", f"no label of the node names its {resource}; {MEND}")
    )


def is_device(resource: str) -> bool:
    """Whether an extended resource counts accelerators."""
    return resource in DEVICE_RESOURCES or resource.startswith(("nvidia.com/mig-", NVIDIA_GPU))


def _shared(labels: Labels, offered: int, profile: Profile | None) -> str:
    """Why the device is shared, or ""."""
    prefix = NVIDIA_GPU if profile is None else mig_prefix(labels, profile)
    strategy = labels.get(f"{prefix}.sharing-strategy", "none")
    if strategy not in {"", "none"}:
        return f"label {prefix}.sharing-strategy is {strategy}"
    if labels.get(f"{prefix}.product", "").endswith("-SHARED"):
        return f"label {prefix}.product ends in -SHARED"
    replicas = integer(labels.get(f"{prefix}.replicas"))
    if replicas is not None and replicas > 1:
        return f"label {prefix}.replicas is {replicas}"
    gke = labels.get("cloud.google.com/gke-gpu-sharing-strategy", "")
    if gke:
        return f"label cloud.google.com/gke-gpu-sharing-strategy is {gke}"
    physical = _physical_count(labels)
    # the label `replicas` is wrong under some drivers (NVIDIA/k8s-device-plugin issue 732)
    if profile is None and physical is not None and offered > physical:
        return f"the node offers {offered} devices and has {physical}"
    return ""


def _physical_count(labels: Labels) -> int | None:
    """Devices of the node, whole; None if not known, or if they are cut into slices."""
    if "-MIG-" in labels.get(f"{NVIDIA_GPU}.product", "") or _GKE_PARTITION in labels:
        return None
    if labels.get("nvidia.com/mig.strategy") == "single" or "nvidia.com/mig.config" in labels:
        return None
    for key in (f"{NVIDIA_GPU}.count", "karpenter.k8s.aws/instance-gpu-count"):
        count = integer(labels.get(key))
        if count:
            return count
    instance = INSTANCE_TYPES.get(_instance_name(labels))
    return None if instance is None else instance.count


_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"


def _gke(labels: Labels) -> Device | Unknown | None:
    """The device by GKE's labels."""
    name = labels.get(_GKE_ACCELERATOR, "")
    if not name:
        return None
    product = _GKE_NAMES.get(name, name)
    partition = labels.get(_GKE_PARTITION, "")
    return known_device(find_device(f"{product}-MIG-{partition}" if partition else product))


def _karpenter(labels: Labels) -> Device | Unknown | None:
    """The device by Karpenter's labels; its memory label is nominal, but tells variants apart."""
    name = labels.get("karpenter.k8s.aws/instance-gpu-name", "")
    if not name or labels.get("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia") != "nvidia":
        return None
    memory_mib = integer(labels.get("karpenter.k8s.aws/instance-gpu-memory"))
    card = find_card(name)
    if isinstance(card, Refusal) and memory_mib:
        sized = find_card(f"{name}-{round(memory_mib / 1024)}GB")
        card = sized if isinstance(sized, Card) else card
    if isinstance(card, Refusal):
        return known_device(card)
    if memory_mib and card.driver_mib and memory_mib * 10 < card.driver_mib * 9:
        return Unknown(
            "SharedDevice",
            f"label karpenter.k8s.aws/instance-gpu-memory is {memory_mib} MiB, a part of a "
            f"{card.product}: it is no device of its own; {MEND}",
        )
    return known_device(card.device())


def _instance_type(labels: Labels) -> Device | Unknown | None:
    """The device by the cloud's instance type."""
    instance = INSTANCE_TYPES.get(_instance_name(labels))
    if instance is None:
        return None
    device = find_device(instance.product)
    if isinstance(device, Refusal):
        return known_device(device)
    return replace(device, evidence=f"{device.evidence}; named by the instance type")


def _instance_name(labels: Labels) -> str:
    return labels.get(
        "node.kubernetes.io/instance-type", labels.get("beta.kubernetes.io/instance-type", "")
    )


def _other_vendor(labels: Labels, resource: str) -> Unknown:
    if resource.startswith(NVIDIA_GPU):  # nvidia.com/gpu.shared: time-slicing, renamed
        return Unknown("SharedDevice", f"{resource} is no device of its own; {MEND}")
    vendor, keys = _OTHER_VENDORS.get(resource, (resource, ()))
    said = next((labels[key] for key in keys if labels.get(key)), "")
    named = f"{vendor} {said}" if said else vendor
    return Unknown("DeviceUnknown", f"{resource} is {named}, which is not read from labels; {MEND}")
