"""MIG profiles: which slices a card can be cut into, and how much memory a slice has.

A slice of a card with 8 memory slices (4 on A30 and RTX PRO 6000) has less than its share: the
driver keeps some for itself. Where `nvidia-smi mig -lgip` or a node label was published, that
figure stands here (it equals the CUDA runtime's total of the slice: ollama/ollama pull request
2264 prints 84987740160 bytes for a 7g.80gb, listed as 79.15 GiB); elsewhere 0.86 of the share,
the smallest ratio published (GB200 1g.24gb: 20.00 GiB of 23.13). Profile names and fractions:
NVIDIA MIG user guide, supported profiles; Project-HAMi/HAMi device-configmap.yaml.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_PROFILE = re.compile(r"(?P<compute>[1-7])g\.(?P<gigabytes>\d{1,3})gb(?P<attributes>[-+.a-z0-9]*)")
_ESTIMATE_PERCENT = 86


@dataclass(frozen=True, slots=True)
class Profile:
    """A MIG profile: `compute` g . `gigabytes` gb; media attributes ("+me") do not matter here."""

    compute: int
    gigabytes: int

    def __str__(self) -> str:
        return f"{self.compute}g.{self.gigabytes}gb"

    def is_like(self, other: "Profile") -> bool:
        """Equal up to the rounding of the name.

        Old GPU feature discovery labels say 3g.21gb where the resource is 3g.20gb
        (NVIDIA/gpu-feature-discovery issue 7), some drivers 7g.79gb for 7g.80gb.
        """
        return self.compute == other.compute and abs(self.gigabytes - other.gigabytes) <= 1


@dataclass(frozen=True, slots=True)
class Slice:
    """What a profile gets of a card.

    Attributes:
        memory_mib: MiB, as the CUDA runtime reports it.
        memory_slices: of `slices` in all; bandwidth is split alike.
        evidence: where the memory figure comes from.
    """

    memory_mib: int
    memory_slices: int
    slices: int
    evidence: str


@dataclass(frozen=True, slots=True)
class _Family:
    """Cards that are cut alike: profile to measured MiB, None where none was published."""

    slices: int
    profiles: Mapping[str, int | None]
    source: str = ""


_A100_40 = _Family(
    8,
    {"1g.5gb": 4864, "1g.10gb": None, "2g.10gb": None, "3g.20gb": 20096, "4g.20gb": None,
     "7g.40gb": 40192},
    "node labels in NVIDIA/gpu-operator issue 981, NVIDIA/gpu-feature-discovery issue 7, "
    "run-ai/fake-gpu-operator",
)  # fmt: skip
_A100_80 = _Family(
    8,
    {"1g.10gb": 9728, "1g.20gb": None, "2g.20gb": None, "3g.40gb": None, "4g.40gb": None,
     "7g.80gb": None},
    "kubernetes-sigs/dra-driver-nvidia-gpu issue 719",
)  # fmt: skip
_H100_80 = _Family(
    8,
    {"1g.10gb": 9984, "1g.20gb": 20096, "2g.20gb": 20096, "3g.40gb": 40448, "4g.40gb": 40448,
     "7g.80gb": 81152},
    "nvidia-smi mig -lgip in jbarrow.ai/field_notes/nvidia-mig",
)  # fmt: skip
_H100_94 = _Family(
    8,
    {"1g.12gb": 11008, "1g.24gb": 22144, "2g.24gb": 22144, "3g.47gb": 47488, "4g.47gb": None,
     "7g.94gb": None},
    "nvidia-smi mig -lgip in NVIDIA/gpu-operator pull request 900",
)  # fmt: skip
_H100_96 = _Family(
    8,
    {"1g.12gb": None, "1g.24gb": None, "2g.24gb": None, "3g.48gb": None, "4g.48gb": None,
     "7g.96gb": None},
)  # fmt: skip
_FAMILIES = MappingProxyType({
    "NVIDIA-A30": _Family(4, {"1g.6gb": None, "2g.12gb": None, "4g.24gb": None}),
    "NVIDIA-A100-SXM4-40GB": _A100_40,
    "NVIDIA-A100-PCIE-40GB": _A100_40,
    "NVIDIA-A100-SXM4-80GB": _A100_80,
    "NVIDIA-A100-80GB-PCIe": _A100_80,
    "NVIDIA-H100-80GB-HBM3": _H100_80,
    "NVIDIA-H100-PCIe": _H100_80,
    "NVIDIA-H100-NVL": _H100_94,
    "NVIDIA-H20": _H100_96,
    "NVIDIA-GH200-480GB": _H100_96,
    "NVIDIA-H200": _Family(
        8,
        {"1g.18gb": 16384, "1g.35gb": None, "2g.35gb": 33280, "3g.71gb": None, "4g.71gb": None,
         "7g.141gb": 143360},
        "nvidia-smi mig -lgip in public code",
    ),
    "NVIDIA-B200": _Family(
        8,
        {"1g.23gb": 20992, "1g.45gb": 45312, "2g.45gb": 45312, "3g.90gb": None, "4g.90gb": None,
         "7g.180gb": None},
        "nvidia-smi mig -lgip in NVIDIA/mig-parted pull request 187",
    ),
    "NVIDIA-GB200": _Family(
        8,
        {"1g.24gb": 20480, "1g.47gb": 46592, "2g.47gb": 46592},
        "nvidia-smi mig -lgip in NVIDIA/gpu-operator pull request 1303",
    ),
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": _Family(
        4,
        {"1g.24gb": 23680, "2g.48gb": None, "4g.96gb": None},
        "nvidia-smi mig -lgip in bigstack-oss/cubecos issue 312",
    ),
})  # fmt: skip


def parse_profile(text: str) -> Profile | None:
    """A profile's name ("1g.10gb", "1g.10gb+me", "1g.10gb.me"), or None."""
    match = _PROFILE.fullmatch(text.strip().lower())
    return None if match is None else Profile(int(match["compute"]), int(match["gigabytes"]))


def profile_of_resource(resource: str) -> Profile | None:
    """The profile of an extended resource ("nvidia.com/mig-1g.10gb"), or None."""
    prefix = "nvidia.com/mig-"
    return parse_profile(resource.removeprefix(prefix)) if resource.startswith(prefix) else None


def slice_of(product: str, profile: Profile, card_mib: int) -> Slice | None:
    """What the profile gets of the card; None if the card has no such profile.

    Args:
        product: the whole card's product in the device table.
        profile: what to cut.
        card_mib: memory of the whole card as the driver reports it, MiB.
    """
    family = _FAMILIES.get(product)
    if family is None:
        return None
    names = [(parse_profile(name), measured) for name, measured in family.profiles.items()]
    # an exact name first, then one that differs by rounding
    for exact in (True, False):
        for known, measured in names:
            if known is None or not (known == profile if exact else known.is_like(profile)):
                continue
            share = _memory_slices(known, family.slices, card_mib)
            if measured is not None:
                return Slice(measured, share, family.slices, f"MIG table: {family.source}")
            estimate = card_mib * share * _ESTIMATE_PERCENT // (family.slices * 100)
            return Slice(
                estimate, share, family.slices, "memory estimated: 0.86 of the slice's share"
            )
    return None


def _memory_slices(profile: Profile, slices: int, card_mib: int) -> int:
    """Memory slices of a profile: its nominal gigabytes in units of the card's slice."""
    card_gigabytes = max(1, round(card_mib / 1024))
    return min(slices, max(1, round(profile.gigabytes * slices / card_gigabytes)))
