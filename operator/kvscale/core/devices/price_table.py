"""List prices of devices, for pools that state none.

On demand, Linux: AWS us-east-1, and Azure for devices that AWS does not rent (eastus; westus3 for
what eastus does not have). A price includes the rest of the machine; a device's share is the
machine's price over its devices. Sources: aws/karpenter-provider-aws@1d927085dd81
pkg/providers/pricing/zz_generated.pricing_aws.go and Azure/karpenter-provider-azure@352646f59929
pkg/providers/pricing (both Apache-2.0).
"""

from dataclasses import dataclass

from kvscale.core.devices.price import MICROS, Price

_AWS = ("us-east-1", "2026-07-20")
_AZURE = ("eastus", "2026-06-18")
_AZURE_WEST = ("westus3", "2026-06-18")


@dataclass(frozen=True, slots=True)
class ListPrice:
    """One machine of a price list.

    Attributes:
        product: of the device table.
        devices: of that product in the machine.
        instance_type: as the cloud names the machine.
        place: region, and the day of the list.
        per_hour: of the whole machine, USD.
    """

    product: str
    devices: int
    instance_type: str
    place: tuple[str, str]
    per_hour: float

    @property
    def micros_per_device_hour(self) -> int:
        """A device's share of the machine."""
        return round(self.per_hour * MICROS / self.devices)


# product, devices, instance type, place, USD per hour
PRICES = (
    ListPrice("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge", _AWS, 21.9576),
    ListPrice("NVIDIA-A100-SXM4-80GB", 8, "p4de.24xlarge", _AWS, 27.4471),
    ListPrice("NVIDIA-A100-80GB-PCIe", 1, "Standard_NC24ads_A100_v4", _AZURE, 3.673),
    ListPrice("NVIDIA-A100-80GB-PCIe", 2, "Standard_NC48ads_A100_v4", _AZURE, 7.346),
    ListPrice("NVIDIA-A100-80GB-PCIe", 4, "Standard_NC96ads_A100_v4", _AZURE, 14.692),
    ListPrice("NVIDIA-A10G", 1, "g5.xlarge", _AWS, 1.006),
    ListPrice("NVIDIA-A10G", 4, "g5.12xlarge", _AWS, 5.672),
    ListPrice("NVIDIA-A10G", 8, "g5.48xlarge", _AWS, 16.288),
    ListPrice("NVIDIA-A10", 1, "Standard_NV36ads_A10_v5", _AZURE, 3.2),
    ListPrice("NVIDIA-A10", 2, "Standard_NV72ads_A10_v5", _AZURE, 6.52),
    ListPrice("NVIDIA-L4", 1, "g6.xlarge", _AWS, 0.8048),
    ListPrice("NVIDIA-L4", 4, "g6.12xlarge", _AWS, 4.6016),
    ListPrice("NVIDIA-L4", 8, "g6.48xlarge", _AWS, 13.3504),
    ListPrice("NVIDIA-L40S", 1, "g6e.xlarge", _AWS, 1.861),
    ListPrice("NVIDIA-L40S", 4, "g6e.12xlarge", _AWS, 10.4926),
    ListPrice("NVIDIA-L40S", 8, "g6e.48xlarge", _AWS, 30.1312),
    ListPrice("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 1, "g7e.2xlarge", _AWS, 3.3631),
    ListPrice("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 2, "g7e.12xlarge", _AWS, 8.2861),
    ListPrice("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 4, "g7e.24xlarge", _AWS, 16.5722),
    ListPrice("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 8, "g7e.48xlarge", _AWS, 33.1443),
    ListPrice("NVIDIA-H100-80GB-HBM3", 1, "p5.4xlarge", _AWS, 6.88),
    ListPrice("NVIDIA-H100-80GB-HBM3", 8, "p5.48xlarge", _AWS, 55.04),
    ListPrice("NVIDIA-H100-NVL", 1, "Standard_NC40ads_H100_v5", _AZURE, 6.98),
    ListPrice("NVIDIA-H100-NVL", 2, "Standard_NC80adis_H100_v5", _AZURE, 13.96),
    ListPrice("NVIDIA-H200", 8, "p5en.48xlarge", _AWS, 63.296),
    ListPrice("NVIDIA-B200", 8, "p6-b200.48xlarge", _AWS, 113.9328),
    ListPrice("NVIDIA-B300-SXM6-AC", 8, "p6-b300.48xlarge", _AWS, 142.416),
    ListPrice("NVIDIA-GB200", 4, "Standard_ND128isr_NDR_GB200_v6", _AZURE, 108.16),
    ListPrice("AMD-Instinct-MI300X", 8, "Standard_ND96isr_MI300X_v5", _AZURE_WEST, 48.0),
    ListPrice("Tesla-T4", 1, "g4dn.xlarge", _AWS, 0.526),
    ListPrice("Tesla-T4", 4, "g4dn.12xlarge", _AWS, 3.912),
    ListPrice("Tesla-T4", 8, "g4dn.metal", _AWS, 7.824),
    ListPrice("Tesla-V100-SXM2-16GB", 1, "p3.2xlarge", _AWS, 3.06),
    ListPrice("Tesla-V100-SXM2-16GB", 4, "p3.8xlarge", _AWS, 12.24),
    ListPrice("Tesla-V100-SXM2-16GB", 8, "p3.16xlarge", _AWS, 24.48),
    ListPrice("Tesla-V100-SXM2-32GB", 8, "p3dn.24xlarge", _AWS, 31.212),
)  # fmt: skip


def list_price(product: str, devices: int) -> Price | None:
    """The price of one of `devices` devices that one replica needs together.

    The cheapest machine that holds them all; of those that are too small, the largest. A device
    in a machine with many costs more where the machine has more of everything else.

    Args:
        product: of the device table.
        devices: of one replica, positive.
    """
    rows = [row for row in PRICES if row.product == product]
    if not rows:
        return None
    largest = max(row.devices for row in rows)
    fits = [row for row in rows if row.devices >= min(devices, largest)]
    best = min(fits, key=lambda row: (row.micros_per_device_hour, row.devices))
    region, day = best.place
    return Price(
        best.micros_per_device_hour,
        source=f"list price of {best.instance_type} in {region}, on demand",
        as_of=day,
    )
