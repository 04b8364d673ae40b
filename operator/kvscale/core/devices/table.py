"""Devices by name: their memory as the CUDA runtime reports it, bandwidth and peak.

The memory is `torch.cuda.mem_get_info` total where engines logged it; where none did it is 0.99 of
the driver's figure (logged ratios lie between 0.982 and 0.998) and the evidence says "estimated".
Bandwidth and peak (dense bf16, fp16 before Ampere) are datasheet figures; "recalled" marks those
that were not read again in a source when the table was made. Sources: GPU feature discovery labels
and nvidia-smi outputs in public repositories, engine boot logs, ai-dynamo/aiconfigurator
(src/aiconfigurator/systems/*.yaml, Apache-2.0).
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches

from kvscale.core.devices.device import Device
from kvscale.core.devices.mig import Profile, parse_profile, slice_of
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, MIB

_FIELD = "devices.product"
_SHOWN = 60
"""Characters of a name that a message repeats."""

_CLOSE = 3
"""Names that a message proposes for one that is not known."""


@dataclass(frozen=True, slots=True)
class Card:
    """One row of the table.

    Attributes:
        product: the `nvidia.com/gpu.product` label, or the vendor's name.
        driver_mib: memory as nvidia-smi prints it, MiB; None: no such figure is known.
        cuda_gib: total of the CUDA runtime, GiB; None: not known, and no Device is made then.
        bandwidth_gb_per_second: 10^9 bytes per second.
        dense_tflops: bf16 without sparsity.
        compute_capability: "8.9"; "" where the vendor has no such number.
        logged: engines logged `cuda_gib`; otherwise it is estimated.
        recalled: bandwidth and peak want a check.
        aliases: other names; see `_key` for what makes two names equal.
    """

    product: str
    driver_mib: int | None
    cuda_gib: float | None
    bandwidth_gb_per_second: int
    dense_tflops: float
    compute_capability: str
    logged: bool = False
    recalled: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def evidence(self) -> str:
        """Where the figures come from."""
        memory = (
            "memory logged by engines"
            if self.logged
            else f"memory estimated: 0.99 of the driver's {self.driver_mib} MiB"
        )
        return f"device table: {memory}" + ("; speed recalled" if self.recalled else "")

    def device(self) -> Device | Refusal:
        """The whole card; a Refusal where its memory is not known."""
        if self.cuda_gib is None:
            return Refusal(
                "DeviceMemoryUnknown",
                "devices.memory",
                f"no measured memory of {self.product} is in the device table: state "
                "targets[].devices.memory, as the engine's start-up log prints it",
            )
        return Device(
            product=self.product,
            memory_bytes=round(self.cuda_gib * GIB),
            bandwidth_bytes_per_second=self.bandwidth_gb_per_second * 10**9,
            flops_per_second=round(self.dense_tflops * 10**12),
            compute_capability=self.compute_capability,
            evidence=self.evidence,
        )


# product, driver MiB, CUDA GiB, GB/s, TFLOP/s, compute capability
CARDS = (
    Card("NVIDIA-A100-SXM4-40GB", 40960, 39.6, 1555, 312, "8.0", recalled=True,
         aliases=("A100 40GB",)),
    Card("NVIDIA-A100-PCIE-40GB", 40536, 39.19, 1555, 312, "8.0", recalled=True),
    Card("NVIDIA-A100-SXM4-80GB", 81920, 79.2, 2039, 312, "8.0",
         aliases=("A100 80GB", "A100-SXM-80GB")),
    Card("NVIDIA-A100-80GB-PCIe", 81920, 79.2, 1935, 312, "8.0", aliases=("A100-PCIE-80GB",)),
    Card("NVIDIA-A30", 24576, 23.76, 933, 165, "8.0"),
    Card("NVIDIA-A10G", 23028, 22.26, 600, 70, "8.6", recalled=True),
    Card("NVIDIA-A10", 23028, 22.26, 600, 125, "8.6", recalled=True),
    Card("NVIDIA-L4", 23034, 22.27, 300, 121, "8.9"),
    Card("NVIDIA-L40S", 46068, 44.42, 864, 362.05, "8.9", logged=True),
    Card("NVIDIA-A40", 46068, 44.54, 696, 149.7, "8.6", recalled=True),
    Card("NVIDIA-L20", 46068, 44.54, 864, 119.5, "8.9", recalled=True),
    Card("NVIDIA-GeForce-RTX-4090", 24564, 23.55, 1008, 165.2, "8.9", logged=True, recalled=True),
    Card("NVIDIA-GeForce-RTX-3090", 24576, 23.58, 936, 71, "8.6", logged=True, recalled=True),
    Card("NVIDIA-GeForce-RTX-5090", 32607, 31.4, 1792, 209.5, "12.0", logged=True, recalled=True),
    Card("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, 94.97, 1792, 467.8, "12.0",
         logged=True,
         aliases=("RTX PRO 6000", "RTX-PRO-6000-Blackwell", "RTX-PRO-Server-6000",
                  "RTX-PRO-6000-Blackwell-Workstation-Edition",
                  "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition")),
    # H100 alone, and the clouds' "H100 80GB", mean the SXM card: every instance type of the price
    # tables that says so has it, and the PCIe card has the same memory.
    Card("NVIDIA-H100-80GB-HBM3", 81559, 79.18, 3350, 989, "9.0", logged=True,
         aliases=("H100", "H100 80GB", "H100-SXM5-80GB", "H100-SXM", "H100-SXM5",
                  "H100-MEGA-80GB")),
    Card("NVIDIA-H100-PCIe", 81559, 79.18, 2000, 756.5, "9.0", logged=True),
    Card("NVIDIA-H100-NVL", 95830, 92.65, 3938, 835, "9.0", recalled=True,
         aliases=("H100 94GB", "H100-NVL-94GB")),
    Card("NVIDIA-H200", 143771, 139.8, 4800, 989, "9.0", logged=True,
         aliases=("H200-141GB", "H200-NVL", "H200-SXM")),
    Card("NVIDIA-H20", 97871, 94.62, 4000, 148, "9.0"),
    # the 480GB of the name is the CPU's memory; 96 GB are HBM3
    Card("NVIDIA-GH200-480GB", 97871, 94.62, 4000, 989, "9.0", recalled=True,
         aliases=("GH200", "GH200-120GB")),
    Card("NVIDIA-B200", 183359, 178.35, 7700, 2250, "10.0", logged=True,
         aliases=("B200-SXM6",)),
    Card("NVIDIA-B300-SXM6-AC", 275040, 265.91, 7750, 2250, "10.3", aliases=("B300",)),
    # simulated nodes label it NVIDIA-GB200-192GB-HBM3e, which no driver does
    Card("NVIDIA-GB200", 189471, 184.31, 8000, 2500, "10.0", logged=True,
         aliases=("GB200-192GB-HBM3e",)),
    # Memory shared with the host: what else runs there makes it smaller.
    Card("NVIDIA-GB10", None, 121.65, 273, 125, "12.1", logged=True, recalled=True,
         aliases=("DGX-Spark",)),
    Card("NVIDIA-GB300", None, None, 8000, 2500, "10.3"),
    Card("Tesla-T4", 15360, 14.85, 320, 65, "7.5", recalled=True),
    Card("Tesla-V100-SXM2-16GB", 16384, 15.84, 900, 125, "7.0", recalled=True,
         aliases=("V100 16GB",)),
    Card("Tesla-V100-SXM2-32GB", 32768, 31.68, 900, 125, "7.0", recalled=True,
         aliases=("V100 32GB",)),
    Card("AMD-Instinct-MI300X", 196592, 191.98, 5300, 1307.4, "gfx942", logged=True, recalled=True,
         aliases=("MI300X-OAM", "MI300X-192GB")),
    Card("AMD-Instinct-MI325X", None, None, 6000, 1307.4, "gfx942", recalled=True),
    Card("AMD-Instinct-MI355X", None, None, 8000, 2516.6, "gfx950", recalled=True),
    Card("Intel-Gaudi-2", None, None, 2450, 432, "", recalled=True),
    Card("Intel-Gaudi-3", None, None, 3700, 1835, "", recalled=True),
    Card("Intel-Arc-Pro-B60", None, None, 456, 98.3, ""),
    Card("Google-TPU-v5e", None, None, 819, 197, "", recalled=True),
    Card("Google-TPU-v5p", None, None, 2765, 459, "", recalled=True),
    Card("Google-TPU-v6e", None, None, 1640, 918, "", recalled=True),
)  # fmt: skip

_AMBIGUOUS = ("A100", "V100", "A100-PCIE", "A100-SXM4", "V100-SXM2", "A100-SXM")
"""Names that fit cards of different memory."""

_VENDOR = re.compile(r"\b(nvidia|amd|intel|google|instinct|tesla|geforce)\b")
_MIG = re.compile(r"[-_ ]MIG[-_ ](?P<profile>\d+g\.\d+gb\S*)$", re.IGNORECASE)


def find_device(name: str) -> Device | Refusal:
    """The device of that name: a product label ("NVIDIA-L4"), a common name ("L4"), a MIG slice.

    Case, spaces, dashes, underscores and the vendor's name do not matter. "H100" alone is the
    80 GB SXM card. A Refusal names the candidates of an ambiguous name ("A100": 40 or 80 GB).
    """
    match = _MIG.search(name.strip())
    if match is None:
        card = find_card(name)
        return card if isinstance(card, Refusal) else card.device()
    card = find_card(name.strip()[: match.start()])
    if isinstance(card, Refusal):
        return card
    profile = parse_profile(match["profile"])
    whole = card.device()
    if profile is None or isinstance(whole, Refusal):
        return whole if isinstance(whole, Refusal) else _no_profile(card, match["profile"])
    return mig_slice(card, profile)


def find_card(name: str) -> Card | Refusal:
    """The table's row of that name, without MIG."""
    key = _key(name)
    card = _BY_KEY.get(key)
    if card is not None:
        return card
    candidates = [c.product for c in CARDS if key and _key(c.product).startswith(key)]
    if key in {_key(ambiguous) for ambiguous in _AMBIGUOUS}:
        return Refusal(
            "AmbiguousDevice",
            _FIELD,
            f"{name!r} names several devices: state one of {', '.join(candidates)}",
        )
    if not candidates:
        close = get_close_matches(key[:_SHOWN], list(_BY_KEY), n=_CLOSE)
        candidates = list(dict.fromkeys(_BY_KEY[one].product for one in close))
    hint = f" (did you mean {', '.join(candidates)}?)" if candidates else ""
    return Refusal(
        "UnknownDevice",
        _FIELD,
        f"device {name[:_SHOWN]!r} is not in the device table{hint}: name one that is, such as "
        "NVIDIA-L4, or state targets[].devices.memory, as the engine's start-up log prints it",
    )


def mig_slice(card: Card, profile: Profile, slice_mib: int | None = None) -> Device | Refusal:
    """One MIG slice of a card.

    Args:
        card: the whole card.
        profile: compute slices and nominal gigabytes.
        slice_mib: memory as the node's labels give it; None: from the table of profiles.
    """
    whole = card.device()
    if isinstance(whole, Refusal):
        return whole
    found = slice_of(card.product, profile, card.driver_mib or 0)
    if found is None:
        return _no_profile(card, str(profile))
    memory_mib = found.memory_mib if slice_mib is None else slice_mib
    evidence = found.evidence if slice_mib is None else "memory as the node's MIG label gives it"
    return Device(
        product=f"{card.product}-MIG-{profile}",
        memory_bytes=min(memory_mib * MIB, whole.memory_bytes),
        bandwidth_bytes_per_second=whole.bandwidth_bytes_per_second
        * found.memory_slices
        // found.slices,
        # the card's eighth part of compute is not offered under MIG: 14 of 108 SMs for 1g on A100
        flops_per_second=whole.flops_per_second * profile.compute // found.slices,
        compute_capability=whole.compute_capability,
        evidence=evidence,
    )


def _no_profile(card: Card, profile: str) -> Refusal:
    return Refusal(
        "UnknownMigProfile",
        _FIELD,
        f"{card.product} has no known MIG profile {profile}: state targets[].devices.memory",
    )


def _key(name: str) -> str:
    """Names with equal keys are the same device."""
    return re.sub(r"[^a-z0-9]", "", _VENDOR.sub("", name.lower().replace("_", "-")))


_BY_KEY = {_key(name): card for card in CARDS for name in (card.product, *card.aliases)}
