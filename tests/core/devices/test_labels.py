"""The device of a node, over real nodes and the traps that they taught.

Each file of tests/data/nodes names its source in its first line; many are excerpts. Where an
excerpt shows no status, the table says what the node is taken to offer.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.devices.device import Device
from kvscale.core.devices.labels import device_of_node
from kvscale.core.devices.table import find_device
from kvscale.core.values import GIB, MIB, Unknown

NODES = Path(__file__).parents[2] / "data" / "nodes"
GPU = "nvidia.com/gpu"
ONE = {GPU: 1}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((NODES / f"{name}.yaml").read_text(encoding="utf-8")))


def node(name: str) -> tuple[dict[str, str], dict[str, int]]:
    document = documents(name)[0]
    status = document.get("status", {})
    offered = status.get("allocatable", status.get("capacity", {}))
    return document["metadata"].get("labels", {}), {
        key: int(value) for key, value in offered.items() if "/" in key
    }


# (file, resource, what it offers where the excerpt does not say, product or reason, memory in GiB)
T4, A10G, L4, L40S = (
    ("Tesla-T4", 14.85),
    ("NVIDIA-A10G", 22.26),
    ("NVIDIA-L4", 22.27),
    ("NVIDIA-L40S", 44.42),
)
H100 = ("NVIDIA-H100-80GB-HBM3", 79.18)
TABLE = [
    ("doc_gaudi_x8", "habana.ai/gaudi", None, ("DeviceUnknown", None)),
    ("doc_gke_tpu_v6e", "google.com/tpu", None, ("DeviceUnknown", None)),
    ("doc_mi300x_oam", "amd.com/gpu", None, ("DeviceUnknown", None)),
    ("doc_mi300x_vf_hami", "amd.com/gpu", {"amd.com/gpu": 10}, ("DeviceUnknown", None)),
    ("real_aks_mi300x_nd96", "amd.com/gpu", {"amd.com/gpu": 8}, ("DeviceUnknown", None)),
    ("real_mi300x_gpu_operator_no_product", "amd.com/gpu", {"amd.com/gpu": 8}, ("DeviceUnknown", None)),
    ("karpenter_inf2_xlarge", "aws.amazon.com/neuron", None, ("DeviceUnknown", None)),
    ("karpenter_inf2_xlarge", GPU, None, ("NoDevices", None)),
    ("karpenter_g4dn_xlarge", GPU, None, T4),
    ("karpenter_g5_xlarge", GPU, None, A10G),
    ("karpenter_g5_12xlarge", GPU, None, A10G),
    ("karpenter_g6_xlarge", GPU, None, L4),
    ("karpenter_g6_12xlarge", GPU, None, L4),
    ("karpenter_gr6_4xlarge", GPU, None, L4),
    ("karpenter_g6e_xlarge", GPU, None, L40S),
    ("karpenter_g6e_48xlarge", GPU, None, L40S),
    ("karpenter_p5en_48xlarge", GPU, None, ("NVIDIA-H200", 139.8)),
    ("karpenter_p6-b200_48xlarge", GPU, None, ("NVIDIA-B200", 178.35)),
    ("karpenter_p6-b300_48xlarge", GPU, None, ("NVIDIA-B300-SXM6-AC", 265.91)),
    ("karpenter_g6f_large", GPU, None, ("NoDevices", None)),  # an eighth of a card is no resource
    ("karpenter_g6f_large", GPU, ONE, ("SharedDevice", None)),
    ("kwok_aicr_p5-h100", GPU, None, H100),  # nominal label: above what the driver says
    ("kwok_aicr_p6-gb200", GPU, None, ("NVIDIA-GB200", 184.31)),  # a product that no driver prints
    ("real_h100x8_xe9680", GPU, {GPU: 8}, H100),
    ("real_a100_40_mig_mixed_7g40", GPU, None, ("NoDevices", None)),
    ("real_a100_40_mig_mixed_7g40", "nvidia.com/mig-7g.40gb", None, ("NVIDIA-A100-SXM4-40GB-MIG-7g.40gb", 40192 / 1024)),
    ("real_a100_40_mig_mixed_7g40", "nvidia.com/mig-1g.5gb", None, ("NoDevices", None)),
    ("real_a100_40_mig_single_1g5", GPU, {GPU: 7}, (GPU, 4864 / 1024 * 0.982)),  # label is the slice's
    ("real_a100_40_pcie_mig_mixed", GPU, ONE, ("NVIDIA-A100-PCIE-40GB", 39.19)),
    ("real_a100_40_pcie_mig_mixed", "nvidia.com/mig-1g.5gb", {"nvidia.com/mig-1g.5gb": 4}, ("NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 4864 / 1024)),
    ("real_a100_40_sxm_7g40_x4", "nvidia.com/mig-7g.40gb", {"nvidia.com/mig-7g.40gb": 4}, ("NVIDIA-A100-SXM4-40GB-MIG-7g.40gb", 40192 / 1024)),
    ("real_a100_80_mig_stale_whole_gpu", GPU, None, ("DeviceUnknown", None)),
    ("real_a100_80_mig_stale_whole_gpu", "nvidia.com/mig-1g.10gb", None, ("DeviceUnknown", None)),
    ("real_a100_gfd_mig_label_mismatch", "nvidia.com/mig-3g.20gb", None, ("MIG-3g.20gb", 20096 / 1024)),
    ("real_h100_94_mig_all_balanced", "nvidia.com/mig-3g.47gb", None, ("DeviceUnknown", None)),
    ("real_h100_94_mig_all_balanced", GPU, None, ("NoDevices", None)),
    ("real_g4dn2xlarge_bottlerocket_karpenter", GPU, {}, ("NoDevices", None)),  # labels promise a T4
    ("real_g4dn2xlarge_bottlerocket_karpenter", GPU, ONE, T4),
    ("real_g5xlarge_karpenter_2022", GPU, ONE, A10G),
    ("real_g5xlarge_timeslicing_wrong_replicas", GPU, ONE, A10G),
    ("real_g5xlarge_timeslicing_wrong_replicas", GPU, {GPU: 4}, ("SharedDevice", None)),
    ("real_t4_g4dn_mps", GPU, {GPU: 4}, ("SharedDevice", None)),
    ("real_gke_k80_2017", GPU, {}, ("NoDevices", None)),
    ("real_gke_k80_2017", GPU, ONE, ("DeviceUnknown", None)),
    ("real_gke_l4_g2standard8", GPU, ONE, L4),
    ("real_hami_a100_annotation_only", GPU, None, ("NoDevices", None)),
    ("real_no_labels_one_gpu", GPU, None, ("DeviceUnknown", None)),
    ("real_shared_gpu_deepomatic", GPU, None, ("DeviceUnknown", None)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "resource", "offered", "expected"), TABLE)
def test_the_device_of_a_real_node(name, resource, offered, expected):
    labels, allocatable = node(name)
    found = device_of_node(labels, allocatable if offered is None else offered, resource)
    named, gib = expected
    if gib is None:
        assert isinstance(found, Unknown), found
        assert found.reason == named
        return
    assert isinstance(found, Device), found
    assert found.product == named
    assert found.memory_bytes == pytest.approx(gib * GIB, abs=1)


def test_every_real_node_is_in_the_table():
    nodes = {f.stem for f in NODES.glob("*.yaml") if documents(f.stem)[0]["kind"] == "Node"}
    assert nodes == {name for name, *_ in TABLE}


def test_products_that_resource_slices_publish_are_in_the_device_table():
    names = {
        device["attributes"]["productName"]["string"]
        for file in NODES.glob("dra_*.yaml")
        for document in documents(file.stem)
        for device in document["spec"]["devices"]
        if "productName" in device.get("attributes", {})
    }
    assert names == {"NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3", "AMD_Instinct_MI300X_OAM"}
    assert all(isinstance(find_device(name), Device) for name in names)


def labels_of(product: str, **more: str) -> dict[str, str]:
    return {
        f"{GPU}.product": product,
        **{f"{GPU}.{key.replace('_', '-')}": value for key, value in more.items()},
    }


@pytest.mark.parametrize(
    "labels",
    [
        labels_of("NVIDIA-L4-SHARED", replicas="4"),
        labels_of("NVIDIA-L4", replicas="4"),
        labels_of("NVIDIA-L4", sharing_strategy="mps", replicas="2"),
        labels_of("NVIDIA-L4", sharing_strategy="time-slicing"),
        labels_of("NVIDIA-L4", count="1"),  # and four are offered
        {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
        {"node.kubernetes.io/instance-type": "g6.xlarge"},
    ],
)  # fmt: skip
def test_a_device_that_pods_share_is_no_device_of_its_own(labels):
    found = device_of_node(labels, {GPU: 4})
    assert isinstance(found, Unknown)
    assert found.reason == "SharedDevice"
    assert "targets[].devices.memory" in found.message


def test_a_shared_resource_of_another_name_is_no_device_of_its_own():
    found = device_of_node({}, {"nvidia.com/gpu.shared": 4}, "nvidia.com/gpu.shared")
    assert isinstance(found, Unknown)
    assert found.reason == "SharedDevice"


def test_a_shared_mig_slice_is_no_device_of_its_own():
    labels = {
        "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
        "nvidia.com/mig-1g.5gb.replicas": "2",
    }
    found = device_of_node(labels, {"nvidia.com/mig-1g.5gb": 14}, "nvidia.com/mig-1g.5gb")
    assert isinstance(found, Unknown)
    assert found.reason == "SharedDevice"


def test_slices_of_the_single_strategy_are_not_taken_for_shared_ones():
    labels = labels_of("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", memory="4864", count="1")
    found = device_of_node(labels, {GPU: 7})
    assert isinstance(found, Device)
    assert found.memory_bytes == 4864 * MIB
    assert found.product == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


def test_a_gke_partition_is_a_slice():
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
        "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
    }
    found = device_of_node(labels, {GPU: 7})
    assert isinstance(found, Device)
    assert found.memory_bytes == 4864 * MIB


@pytest.mark.parametrize(
    ("labels", "product"),
    [
        ({"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "40960"}, "NVIDIA-A100-SXM4-40GB"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "81920"}, "NVIDIA-A100-SXM4-80GB"),
        ({"karpenter.k8s.aws/instance-gpu-name": "v100", "karpenter.k8s.aws/instance-gpu-memory": "16384"}, "Tesla-V100-SXM2-16GB"),
        ({"karpenter.k8s.aws/instance-gpu-name": "rtx-pro-server-6000", "karpenter.k8s.aws/instance-gpu-memory": "98304"}, "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "NVIDIA-A100-SXM4-40GB"),
        ({"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}, "NVIDIA-A100-SXM4-80GB"),
        ({"node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4"}, "NVIDIA-A100-80GB-PCIe"),
        ({"beta.kubernetes.io/instance-type": "a2-ultragpu-1g"}, "NVIDIA-A100-SXM4-80GB"),
        ({**labels_of("NVIDIA-L4"), "node.kubernetes.io/instance-type": "g5.xlarge"}, "NVIDIA-L4"),
    ],
)  # fmt: skip
def test_cloud_labels_tell_variants_apart_and_discovery_wins(labels, product):
    found = device_of_node(labels, ONE)
    assert isinstance(found, Device), found
    assert found.product == product


def test_an_older_driver_that_reports_less_memory_lowers_it():
    new = device_of_node(labels_of("Tesla-T4", memory="15360"), ONE)
    old = device_of_node(labels_of("Tesla-T4", memory="15109"), ONE)
    assert isinstance(new, Device)
    assert isinstance(old, Device)
    assert old.memory_bytes == new.memory_bytes * 15109 // 15360
    assert "15109" in old.evidence


def test_a_product_beyond_the_table_has_the_memory_of_its_label():
    found = device_of_node(labels_of("NVIDIA-RTX-A6000", memory="49140"), ONE)
    assert found == Device(
        "NVIDIA-RTX-A6000",
        49140 * MIB * 982 // 1000,
        evidence="label nvidia.com/gpu.memory 49140 MiB, 0.982 of it",
    )


def test_a_board_with_more_memory_than_its_product_has_that_of_its_label():
    found = device_of_node(labels_of("NVIDIA-GeForce-RTX-4090", memory="49140"), ONE)
    assert isinstance(found, Device)
    assert found.memory_bytes == 49140 * MIB * 982 // 1000


@pytest.mark.parametrize(
    "labels",
    [labels_of("NVIDIA-Quadro-X"), labels_of("NVIDIA-A100-SXM4-40GB-MIG-INVALID", memory="0"), {}],
)
def test_labels_that_do_not_tell_the_memory_leave_the_device_unknown(labels):
    found = device_of_node(labels, ONE)
    assert isinstance(found, Unknown)
    assert found.reason == "DeviceUnknown"


def test_a_node_that_offers_other_devices_says_which():
    found = device_of_node({}, {GPU: 0, "nvidia.com/mig-1g.5gb": 2}, GPU)
    assert isinstance(found, Unknown)
    assert "nvidia.com/mig-1g.5gb" in found.message


KEYS = st.sampled_from([
    f"{GPU}.product", f"{GPU}.memory", f"{GPU}.count", f"{GPU}.replicas", "nvidia.com/mig.strategy",
    "nvidia.com/mig-1g.5gb.memory", "nvidia.com/mig-1g.5gb.product", "nvidia.com/mig-.memory",
    "cloud.google.com/gke-accelerator", "cloud.google.com/gke-gpu-partition-size",
    "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory",
    "node.kubernetes.io/instance-type",
])  # fmt: skip
VALUES = st.sampled_from(["a100", "l4", "A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-L4", "0", "1", "40960",
                          "-1", "1g.5gb", "g5.xlarge", "x" * 63]) | st.text(max_size=63)  # fmt: skip


@given(
    st.dictionaries(KEYS, VALUES),
    st.dictionaries(
        st.sampled_from([GPU, "nvidia.com/mig-1g.5gb", "amd.com/gpu"]), st.integers(0, 16)
    ),
    st.sampled_from([GPU, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-x", "amd.com/gpu", "cpu", ""]),
)
def test_any_labels_are_answered_and_no_device_without_memory(labels, allocatable, resource):
    found = device_of_node(labels, allocatable, resource)
    assert isinstance(found, Device | Unknown)
    if isinstance(found, Device):
        assert found.memory_bytes > 0
