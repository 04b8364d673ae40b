"""Cloud instance types that hold one kind of whole device, and how many.

Only types whose device is beyond doubt; fractional ones (g6f, NVadsA10_v5) and those whose card
is not in the device table are left out. Sources: aws/karpenter-provider-aws
pkg/providers/pricing/zz_generated.pricing_aws.go and its instance-type reference (Apache-2.0),
the providers' public price lists for Azure and Google Cloud; read 2026-07.
"""

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class InstanceDevices:
    """The devices of an instance type: a product of the device table and a count."""

    product: str
    count: int


_ROWS = (
    ("Tesla-T4", 1, ("g4dn.xlarge g4dn.2xlarge g4dn.4xlarge g4dn.8xlarge g4dn.16xlarge"
                    " Standard_NC4as_T4_v3 Standard_NC8as_T4_v3 Standard_NC16as_T4_v3")),
    ("Tesla-T4", 4, "g4dn.12xlarge Standard_NC64as_T4_v3"),
    ("Tesla-T4", 8, "g4dn.metal"),
    ("NVIDIA-A10G", 1, "g5.xlarge g5.2xlarge g5.4xlarge g5.8xlarge g5.16xlarge"),
    ("NVIDIA-A10G", 4, "g5.12xlarge g5.24xlarge"),
    ("NVIDIA-A10G", 8, "g5.48xlarge"),
    ("NVIDIA-A10", 1, ("Standard_NC8ads_A10_v4 Standard_NC16ads_A10_v4 Standard_NV36ads_A10_v5"
                      " Standard_NV36adms_A10_v5")),
    ("NVIDIA-A10", 2, "Standard_NC32ads_A10_v4 Standard_NV72ads_A10_v5"),
    ("NVIDIA-L4", 1, ("g6.xlarge g6.2xlarge g6.4xlarge g6.8xlarge g6.16xlarge gr6.4xlarge"
                     " gr6.8xlarge g2-standard-4 g2-standard-8 g2-standard-12 g2-standard-16"
                     " g2-standard-32")),
    ("NVIDIA-L4", 2, "g2-standard-24"),
    ("NVIDIA-L4", 4, "g6.12xlarge g6.24xlarge g2-standard-48"),
    ("NVIDIA-L4", 8, "g6.48xlarge g2-standard-96"),
    ("NVIDIA-L40S", 1, "g6e.xlarge g6e.2xlarge g6e.4xlarge g6e.8xlarge g6e.16xlarge"),
    ("NVIDIA-L40S", 4, "g6e.12xlarge g6e.24xlarge"),
    ("NVIDIA-L40S", 8, "g6e.48xlarge"),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 1, "g7e.2xlarge g7e.4xlarge g7e.8xlarge"),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 2, "g7e.12xlarge"),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 4, "g7e.24xlarge"),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 8, "g7e.48xlarge"),
    ("Tesla-V100-SXM2-16GB", 1, "p3.2xlarge"),
    ("Tesla-V100-SXM2-16GB", 4, "p3.8xlarge"),
    ("Tesla-V100-SXM2-16GB", 8, "p3.16xlarge"),
    ("Tesla-V100-SXM2-32GB", 8, "p3dn.24xlarge Standard_ND40rs_v2"),
    ("NVIDIA-A100-SXM4-40GB", 1, "a2-highgpu-1g"),
    ("NVIDIA-A100-SXM4-40GB", 2, "a2-highgpu-2g"),
    ("NVIDIA-A100-SXM4-40GB", 4, "a2-highgpu-4g"),
    ("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge Standard_ND96asr_v4 a2-highgpu-8g"),
    ("NVIDIA-A100-SXM4-40GB", 16, "a2-megagpu-16g"),
    ("NVIDIA-A100-SXM4-80GB", 1, "a2-ultragpu-1g"),
    ("NVIDIA-A100-SXM4-80GB", 2, "a2-ultragpu-2g"),
    ("NVIDIA-A100-SXM4-80GB", 4, "a2-ultragpu-4g"),
    ("NVIDIA-A100-SXM4-80GB", 8, ("p4de.24xlarge Standard_ND96ams_A100_v4"
                                 " Standard_ND96amsr_A100_v4 a2-ultragpu-8g")),
    ("NVIDIA-A100-80GB-PCIe", 1, "Standard_NC24ads_A100_v4"),
    ("NVIDIA-A100-80GB-PCIe", 2, "Standard_NC48ads_A100_v4"),
    ("NVIDIA-A100-80GB-PCIe", 4, "Standard_NC96ads_A100_v4"),
    ("NVIDIA-H100-80GB-HBM3", 1, "p5.4xlarge a3-highgpu-1g"),
    ("NVIDIA-H100-80GB-HBM3", 2, "a3-highgpu-2g"),
    ("NVIDIA-H100-80GB-HBM3", 8, ("p5.48xlarge Standard_ND96is_H100_v5 Standard_ND96isr_H100_v5"
                                 " Standard_ND96is_noIB_H100_v5 a3-edgegpu-8g a3-megagpu-8g")),
    ("NVIDIA-H100-NVL", 1, "Standard_NC40ads_H100_v5 Standard_NCC40ads_H100_v5"),
    ("NVIDIA-H100-NVL", 2, "Standard_NC80adis_H100_v5"),
    ("NVIDIA-H200", 8, "p5en.48xlarge Standard_ND96isr_H200_v5 a3-ultragpu-8g"),
    ("NVIDIA-B200", 8, "p6-b200.48xlarge"),
    ("NVIDIA-B300-SXM6-AC", 8, "p6-b300.48xlarge"),
    ("NVIDIA-GB200", 4, "Standard_ND128isr_NDR_GB200_v6"),
)  # fmt: skip

INSTANCE_TYPES = MappingProxyType(
    {
        name: InstanceDevices(product, count)
        for product, count, names in _ROWS
        for name in names.split()
    }
)
"""Instance type (label `node.kubernetes.io/instance-type`) to its devices."""
