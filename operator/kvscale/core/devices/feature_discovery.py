"""The device by the labels of GPU feature discovery: product, memory, MIG.

What a driver reports of a card's memory corrects the table; a card that the table does not know is
a device of that much memory and no speed (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery).
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from kvscale.core.devices.device import Device
from kvscale.core.devices.mig import Profile, parse_profile
from kvscale.core.devices.table import Card, find_card, mig_slice
from kvscale.core.refusal import Refusal
from kvscale.core.values import MIB, Unknown

Labels = Mapping[str, str]

NVIDIA_GPU = "nvidia.com/gpu"

MEND = "state targets[].devices.product and targets[].devices.memory"
"""What a user does where labels do not say enough."""

_LOWEST_CUDA_PERMILLE = 982
"""Smallest logged ratio of the CUDA runtime's total to the driver's figure."""


def discovered(labels: Labels) -> Device | Unknown | None:
    """The device by GPU feature discovery; None without its labels."""
    product = labels.get(f"{NVIDIA_GPU}.product", "")
    memory_mib = integer(labels.get(f"{NVIDIA_GPU}.memory"))
    if product.endswith("-MIG-INVALID"):
        return Unknown("DeviceUnknown", f"label {NVIDIA_GPU}.product is {product}; {MEND}")
    name, _, mig = product.partition("-MIG-")
    profile = parse_profile(mig)
    if product:
        card = find_card(name)
        if isinstance(card, Card):
            if profile is not None:
                return known_device(mig_slice(card, profile, memory_mib))
            return _with_label(card, memory_mib)
    if memory_mib:
        return _by_memory(product or NVIDIA_GPU, memory_mib)
    if product:
        return Unknown(
            "DeviceUnknown",
            f"device {product} is not in the device table and label {NVIDIA_GPU}.memory is "
            f"missing; {MEND}",
        )
    return None


def _with_label(card: Card, memory_mib: int | None) -> Device | Unknown:
    """A whole card, its memory corrected by what the node's own driver reports."""
    device = card.device()
    if isinstance(device, Refusal) or not memory_mib or not card.driver_mib:
        if isinstance(device, Refusal) and memory_mib:
            return _by_memory(card.product, memory_mib)
        return known_device(device)
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


def mig_prefix(labels: Labels, profile: Profile) -> str:
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


def mixed_slice(labels: Labels, profile: Profile) -> Device | Unknown:
    """A slice of the mixed strategy, which has a resource and labels of its own."""
    prefix = mig_prefix(labels, profile)
    memory_mib = integer(labels.get(f"{prefix}.memory"))
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
        f"no label of the node says which card its nvidia.com/mig-{profile} is a slice of; {MEND}",
    )


def known_device(found: Device | Refusal) -> Device | Unknown:
    """What the device table answered, where there may be no device."""
    return Unknown("DeviceUnknown", found.message) if isinstance(found, Refusal) else found


def integer(text: str | None) -> int | None:
    """A label's value as a number; None where it is none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None
