"""Devices by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.devices.device import Device
from kvscale.core.devices.instance_types import INSTANCE_TYPES
from kvscale.core.devices.table import CARDS, find_device
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, MIB


@pytest.mark.parametrize(
    ("name", "product", "gib"),
    [
        ("L4", "NVIDIA-L4", 22.27),
        ("l4", "NVIDIA-L4", 22.27),
        ("NVIDIA-L4", "NVIDIA-L4", 22.27),
        ("NVIDIA L4", "NVIDIA-L4", 22.27),
        ("nvidia_l4", "NVIDIA-L4", 22.27),
        ("L40S", "NVIDIA-L40S", 44.42),
        ("H100", "NVIDIA-H100-80GB-HBM3", 79.18),
        ("nvidia-h100-80gb", "NVIDIA-H100-80GB-HBM3", 79.18),
        ("nvidia-h100-mega-80gb", "NVIDIA-H100-80GB-HBM3", 79.18),
        ("NVIDIA H100 PCIe", "NVIDIA-H100-PCIe", 79.18),
        ("H100 NVL", "NVIDIA-H100-NVL", 92.65),
        ("nvidia-h200-141gb", "NVIDIA-H200", 139.8),
        ("NVIDIA-GH200-480GB", "NVIDIA-GH200-480GB", 94.62),
        ("NVIDIA A100 80GB PCIe", "NVIDIA-A100-80GB-PCIe", 79.2),
        ("A100-PCIE-40GB", "NVIDIA-A100-PCIE-40GB", 39.19),
        ("nvidia-a100-80gb", "NVIDIA-A100-SXM4-80GB", 79.2),
        ("a100-40gb", "NVIDIA-A100-SXM4-40GB", 39.6),
        ("nvidia-tesla-t4", "Tesla-T4", 14.85),
        ("RTX 4090", "NVIDIA-GeForce-RTX-4090", 23.55),
        ("MI300X", "AMD-Instinct-MI300X", 191.98),
        ("AMD_Instinct_MI300X_OAM", "AMD-Instinct-MI300X", 191.98),
    ],
)
def test_a_device_is_found_by_any_of_its_names(name, product, gib):
    device = find_device(name)
    assert isinstance(device, Device), device
    assert device.product == product
    assert device.memory_bytes == round(gib * GIB)


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("A100", ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-80GB-PCIe")),
        ("NVIDIA A100", ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-PCIE-40GB")),
        ("V100", ("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB")),
        ("A100-SXM4", ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB")),
    ],
)
def test_a_name_of_cards_with_different_memory_is_refused_with_the_candidates(name, candidates):
    refusal = find_device(name)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "AmbiguousDevice"
    for candidate in candidates:
        assert candidate in refusal.message


@pytest.mark.parametrize("name", ["Gaudi 3", "GB300", "TPU v6e", "MI355X"])
def test_a_device_of_unmeasured_memory_is_refused_with_the_mend(name):
    refusal = find_device(name)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "DeviceMemoryUnknown"
    assert "targets[].devices.memory" in refusal.message


def test_an_unknown_device_is_refused_with_the_mend():
    for name in ("GTX 1080", "", "-"):
        refusal = find_device(name)
        assert isinstance(refusal, Refusal)
        assert refusal.reason == "UnknownDevice"
        assert "targets[].devices.memory" in refusal.message


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4864),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9728),
        ("NVIDIA-A100-SXM4-40GB-MIG-7g.40gb", 40192),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.21gb", 20096),  # the rounding of an old label
        ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 40448),
        ("NVIDIA-H100-NVL-MIG-1g.12gb", 11008),
        ("NVIDIA-H200-MIG-1g.18gb", 16384),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 81920 * 4 * 86 // 800),
    ],
)
def test_a_mig_slice_has_its_own_memory(name, mib):
    device = find_device(name)
    assert isinstance(device, Device), device
    assert device.memory_bytes == mib * MIB
    assert device.evidence.startswith(("MIG table", "memory estimated"))


def test_a_mig_slice_has_its_share_of_bandwidth_and_compute():
    whole, part = find_device("H200"), find_device("NVIDIA-H200-MIG-2g.35gb")
    assert isinstance(whole, Device)
    assert isinstance(part, Device)
    assert part.bandwidth_bytes_per_second == whole.bandwidth_bytes_per_second * 2 // 8
    assert part.flops_per_second == whole.flops_per_second * 2 // 8
    assert part.compute_capability == whole.compute_capability


@pytest.mark.parametrize("name", ["NVIDIA-L4-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB-MIG-1g.99gb"])
def test_a_profile_that_a_card_does_not_have_is_refused(name):
    refusal = find_device(name)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "UnknownMigProfile"


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.product)
def test_the_cuda_total_is_below_the_drivers_figure_by_a_logged_ratio(card):
    # A logged memory needs no figure of the driver's (GB10 shares its host's, and has none).
    assert card.logged or (card.cuda_gib is None) == (card.driver_mib is None)
    if card.cuda_gib is not None and card.driver_mib is not None:
        assert 0.976 <= card.cuda_gib * 1024 / card.driver_mib <= 1


def test_estimated_and_recalled_figures_say_so():
    logged, estimated = find_device("H100"), find_device("T4")
    assert isinstance(logged, Device)
    assert isinstance(estimated, Device)
    assert "logged by engines" in logged.evidence
    assert "estimated" in estimated.evidence
    assert "recalled" in estimated.evidence


def test_every_instance_type_holds_devices_of_the_table():
    for name, instance in INSTANCE_TYPES.items():
        assert isinstance(find_device(instance.product), Device), name
        assert instance.count in {1, 2, 4, 8, 16}


@given(st.text(max_size=40) | st.sampled_from(["A100-MIG-", "H100-MIG-9g.1gb", "L4-MIG-1g.1gb"]))
def test_any_name_is_answered(name):
    assert isinstance(find_device(name), Device | Refusal)
