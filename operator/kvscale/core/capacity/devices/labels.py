"""The device of a node, from what the node says of itself.

Read in this order: GPU feature discovery (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery),
GKE's accelerator label, Karpenter's instance labels, the instance type. A device that several pods
share is no device of its own: its memory is not theirs to plan with. Devices of other vendors are
named and not guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.devices.instance_types import INSTANCE_TYPES
from kvscale.core.capacity.devices.mig import Profile, parse_profile, profile_of_resource
from kvscale.core.capacity.devices.table import MIB, Card, find_card, find_device, mig_slice
from kvscale.core.values import Unknown

Labels = Mapping[str, str]

NVIDIA_GPU = "nvidia.com/gpu"
_MEND = "state targets[].devices.product and targets[].devices.memory"

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

_LOWEST_CUDA_PERMILLE = 982
"""Smallest logged ratio of the CUDA runtime's total to the driver's figure."""


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
        return Unknown("SharedDevice", f"{shared}: {resource} is no device of its own; {_MEND}")
    if profile is not None:
        return _mixed_slice(labels, profile)
    return (
        _discovered(labels)
        or _gke(labels)
        or _karpenter(labels)
        or _instance_type(labels)
        or Unknown("DeviceUnknown", f"no label of the node names its {resource}; {_MEND}")
    )


def is_device(resource: str) -> bool:
    """Whether an extended resource counts accelerators."""
    return resource in DEVICE_RESOURCES or resource.startswith(("nvidia.com/mig-", NVIDIA_GPU))


def _shared(labels: Labels, offered: int, profile: Profile | None) -> str:
    """Why the device is shared, or ""."""
    prefix = NVIDIA_GPU if profile is None else _mig_prefix(labels, profile)
    strategy = labels.get(f"{prefix}.sharing-strategy", "none")
    if strategy not in {"", "none"}:
        return f"label {prefix}.sharing-strategy is {strategy}"
    if labels.get(f"{prefix}.product", "").endswith("-SHARED"):
        return f"label {prefix}.product ends in -SHARED"
    replicas = _integer(labels.get(f"{prefix}.replicas"))
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
        count = _integer(labels.get(key))
        if count:
            return count
    instance = INSTANCE_TYPES.get(_instance_name(labels))
    return None if instance is None else instance.count


def _discovered(labels: Labels) -> Device | Unknown | None:
    """The device by GPU feature discovery; None without its labels."""
    product = labels.get(f"{NVIDIA_GPU}.product", "")
    memory_mib = _integer(labels.get(f"{NVIDIA_GPU}.memory"))
    if product.endswith("-MIG-INVALID"):
        return Unknown("DeviceUnknown", f"label {NVIDIA_GPU}.product is {product}; {_MEND}")
    name, _, mig = product.partition("-MIG-")
    profile = parse_profile(mig)
    if product:
        card = find_card(name)
        if isinstance(card, Card):
            if profile is not None:
                return _known(mig_slice(card, profile, memory_mib))
            return _with_label(card, memory_mib)
    if memory_mib:
        return _by_memory(product or NVIDIA_GPU, memory_mib)
    if product:
        return Unknown(
            "DeviceUnknown",
            f"device {product} is not in the device table and label {NVIDIA_GPU}.memory is "
            f"missing; {_MEND}",
        )
    return None


def _with_label(card: Card, memory_mib: int | None) -> Device | Unknown:
    """A whole card, its memory corrected by what the node's own driver reports."""
    device = card.device()
    if isinstance(device, Refusal) or not memory_mib or not card.driver_mib:
        if isinstance(device, Refusal) and memory_mib:
            return _by_memory(card.product, memory_mib)
        return _known(device)
    label = f"label {NVIDIA_GPU}.memory {memory_mib} MiB"
    if memory_mib * 5 > card.driver_mib * 6:  # a board with more memory than the product has
        memory = memory_mib * MIB * _LOWEST_CUDA_PERMILLE // 1000
        return replace(device, memory_bytes=memory, evidence=f"{label}, 0.982 of it")
    memory = device.memory_bytes * memory_mib // card.driver_mib
    if memory >= device.memory_bytes:
        return device
    return replace(device, memory_bytes=memory, evidence=f"{device.evidence}; lowered by {label}")


def _by_memory(product: str, memory_mib: int) -> Device:
    """A device of which only the memory is known; without speed no step time is computed."""
    return Device(
        product=product,
        memory_bytes=memory_mib * MIB * _LOWEST_CUDA_PERMILLE // 1000,
        evidence=f"label {NVIDIA_GPU}.memory {memory_mib} MiB, 0.982 of it",
    )


def _mig_prefix(labels: Labels, profile: Profile) -> str:
    """The label prefix of a profile; the names may differ by rounding."""
    names: dict[str, Profile] = {}
    for key in labels:
        match = re.match(r"(nvidia\.com/mig-(\d+g\.\d+gb[^.]*))\.", key)
        known = None if match is None else parse_profile(match[2])
        if match is not None and known is not None:
            names[match[1]] = known
    exact = [name for name, known in names.items() if known == profile]
    like = [name for name, known in names.items() if known.is_like(profile)]
    return min(exact or like or [f"nvidia.com/mig-{profile}"])


def _mixed_slice(labels: Labels, profile: Profile) -> Device | Unknown:
    """A slice of the mixed strategy, which has a resource and labels of its own."""
    prefix = _mig_prefix(labels, profile)
    memory_mib = _integer(labels.get(f"{prefix}.memory"))
    product = labels.get(f"{prefix}.product", labels.get(f"{NVIDIA_GPU}.product", ""))
    card = find_card(product.partition("-MIG-")[0]) if product else None
    if isinstance(card, Card):
        found = mig_slice(card, profile, memory_mib)
        if isinstance(found, Device):
            return found
    if memory_mib:
        return Device(
            product=product or f"MIG-{profile}",
            memory_bytes=memory_mib * MIB,
            evidence=f"label {prefix}.memory {memory_mib} MiB",
        )
    return Unknown(
        "DeviceUnknown",
        f"no label of the node says which card its nvidia.com/mig-{profile} is a slice of; {_MEND}",
    )


_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"


def _gke(labels: Labels) -> Device | Unknown | None:
    """The device by GKE's labels."""
    name = labels.get(_GKE_ACCELERATOR, "")
    if not name:
        return None
    product = _GKE_NAMES.get(name, name)
    partition = labels.get(_GKE_PARTITION, "")
    return _known(find_device(f"{product}-MIG-{partition}" if partition else product))


def _karpenter(labels: Labels) -> Device | Unknown | None:
    """The device by Karpenter's labels; its memory label is nominal, but tells variants apart."""
    name = labels.get("karpenter.k8s.aws/instance-gpu-name", "")
    if not name or labels.get("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia") != "nvidia":
        return None
    memory_mib = _integer(labels.get("karpenter.k8s.aws/instance-gpu-memory"))
    card = find_card(name)
    if isinstance(card, Refusal) and memory_mib:
        sized = find_card(f"{name}-{round(memory_mib / 1024)}GB")
        card = sized if isinstance(sized, Card) else card
    if isinstance(card, Refusal):
        return _known(card)
    if memory_mib and card.driver_mib and memory_mib * 10 < card.driver_mib * 9:
        return Unknown(
            "SharedDevice",
            f"label karpenter.k8s.aws/instance-gpu-memory is {memory_mib} MiB, a part of a "
            f"{card.product}: it is no device of its own; {_MEND}",
        )
    return _known(card.device())


def _instance_type(labels: Labels) -> Device | Unknown | None:
    """The device by the cloud's instance type."""
    instance = INSTANCE_TYPES.get(_instance_name(labels))
    if instance is None:
        return None
    device = find_device(instance.product)
    if isinstance(device, Refusal):
        return _known(device)
    return replace(device, evidence=f"{device.evidence}; named by the instance type")


def _instance_name(labels: Labels) -> str:
    return labels.get(
        "node.kubernetes.io/instance-type", labels.get("beta.kubernetes.io/instance-type", "")
    )


def _other_vendor(labels: Labels, resource: str) -> Unknown:
    if resource.startswith(NVIDIA_GPU):  # nvidia.com/gpu.shared: time-slicing, renamed
        return Unknown("SharedDevice", f"{resource} is no device of its own; {_MEND}")
    vendor, keys = _OTHER_VENDORS.get(resource, (resource, ()))
    said = next((labels[key] for key in keys if labels.get(key)), "")
    named = f"{vendor} {said}" if said else vendor
    return Unknown(
        "DeviceUnknown", f"{resource} is {named}, which is not read from labels; {_MEND}"
    )


def _known(found: Device | Refusal) -> Device | Unknown:
    return Unknown("DeviceUnknown", found.message) if isinstance(found, Refusal) else found


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None
