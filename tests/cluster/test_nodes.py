"""Fake GPU nodes say what real ones say."""

import pytest

from localcluster import Labelling, gpu_node


def test_a_node_offers_its_gpus_and_is_marked_for_kwok() -> None:
    node = gpu_node("n", gpus=4, cpu="64", memory="512Gi")
    assert node["status"]["allocatable"] == {
        "cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4",
    }  # fmt: skip
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"


def test_feature_discovery_reports_memory_in_mib_as_the_driver_sees_it() -> None:
    labels = gpu_node("n", product="NVIDIA-H100-80GB-HBM3")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.count"] == "8"


def test_a_node_without_a_labeller_does_not_tell_its_gpu() -> None:
    labels = gpu_node("n", labelling=Labelling.NONE)["metadata"]["labels"]
    assert set(labels) == {"kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname"}


def test_a_mig_slice_is_a_resource_of_its_own() -> None:
    node = gpu_node("n", resource="nvidia.com/mig-1g.10gb", gpus=7)
    assert node["status"]["capacity"]["nvidia.com/mig-1g.10gb"] == "7"
    assert "nvidia.com/gpu" not in node["status"]["capacity"]


def test_labels_of_the_caller_win() -> None:
    node = gpu_node("n", labels={"nvidia.com/gpu.memory": "1", "zone": "a"})
    assert node["metadata"]["labels"]["nvidia.com/gpu.memory"] == "1"
    assert node["metadata"]["labels"]["zone"] == "a"


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("a=b:NoSchedule", {"key": "a", "value": "b", "effect": "NoSchedule"}),
        ("a:NoExecute", {"key": "a", "value": "", "effect": "NoExecute"}),
    ],
)
def test_taints_are_written_as_for_kubectl(text: str, taint: dict[str, str]) -> None:
    assert gpu_node("n", taints=[text])["spec"]["taints"] == [taint]


@pytest.mark.parametrize("text", ["", "a", "a=b", ":NoSchedule", "a=b:Never"])
def test_a_malformed_taint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be key=value:Effect"):
        gpu_node("n", taints=[text])


def test_an_unknown_product_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'H100' is unknown; known: .*NVIDIA-H100-80GB-HBM3"):
        gpu_node("n", product="H100")
