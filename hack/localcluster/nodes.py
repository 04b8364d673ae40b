"""Fake GPU nodes with the labels that real ones carry.

Label sets:

* GPU feature discovery (part of NVIDIA's GPU operator): a Dell XE9680 with 8 H100, from
  github.com/NVIDIA/k8s-device-plugin/issues/1501, completed by the compute and driver labels of
  run-ai/fake-gpu-operator, design/samples (a real A100 node).
* GKE: a g2-standard-8, from github.com/modelplaneai/modelplane/issues/229: no nvidia.com/gpu.*
  labels at all, only cloud.google.com/gke-*.
* none: a device plugin without feature discovery, from
  github.com/podman-desktop/podman-desktop/issues/7778; the GPU's model is not to be known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

STARTUP_SECONDS = "kvscale.io/startup-seconds"  # pod annotation, read by stages/pod-ready.yaml
SHUTDOWN_SECONDS = "kvscale.io/shutdown-seconds"  # pod annotation, read by stages/pod-delete.yaml


class Labelling(Enum):
    """Who labels the nodes."""

    GPU_FEATURE_DISCOVERY = "gpu-feature-discovery"
    GKE = "gke"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Product:
    """What the labels say about a GPU.

    Attributes:
        memory_mib: as the driver reports it (label `nvidia.com/gpu.memory`), not the nominal size.
        family: the architecture.
        compute: CUDA compute capability.
        gke: value of `cloud.google.com/gke-accelerator`.
    """

    memory_mib: int
    family: str
    compute: str
    gke: str


MIG_FAMILIES = frozenset({"ampere", "hopper", "blackwell"})

# memory: nvidia-smi and feature-discovery labels of real machines
PRODUCTS: Mapping[str, Product] = {
    "NVIDIA-H100-80GB-HBM3": Product(81_559, "hopper", "9.0", "nvidia-h100-80gb"),
    "NVIDIA-H200": Product(143_771, "hopper", "9.0", "nvidia-h200-141gb"),
    "NVIDIA-B200": Product(183_359, "blackwell", "10.0", "nvidia-b200"),
    "NVIDIA-A100-SXM4-80GB": Product(81_920, "ampere", "8.0", "nvidia-a100-80gb"),
    "NVIDIA-A100-SXM4-40GB": Product(40_960, "ampere", "8.0", "nvidia-tesla-a100"),
    "NVIDIA-L4": Product(23_034, "ada-lovelace", "8.9", "nvidia-l4"),
    "Tesla-T4": Product(15_360, "turing", "7.5", "nvidia-tesla-t4"),
}


def gpu_node(
    name: str,
    *,
    product: str = "NVIDIA-H100-80GB-HBM3",
    gpus: int = 8,
    cpu: str = "192",
    memory: str = "2048Gi",
    resource: str = "nvidia.com/gpu",
    labelling: Labelling = Labelling.GPU_FEATURE_DISCOVERY,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
) -> dict[str, Any]:
    """The Node object of a fake GPU machine.

    Args:
        name: of the node.
        product: as feature discovery spells it; see PRODUCTS.
        gpus: how many of `resource` the node offers.
        cpu: quantity.
        memory: quantity, of the host.
        resource: the extended resource, such as `nvidia.com/mig-1g.10gb`.
        labelling: whose labels it carries.
        labels: further ones; they win.
        annotations: further ones.
        taints: in kubectl's form, `key=value:Effect` or `key:Effect`.

    Raises:
        ValueError: an unknown product, or a malformed taint.
    """
    if product not in PRODUCTS:
        raise ValueError(f"product {product!r} is unknown; known: {', '.join(sorted(PRODUCTS))}")
    basic = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
    }
    resources = {"cpu": cpu, "memory": memory, "pods": "110", resource: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": basic | _labels(product, gpus, labelling) | dict(labels or {}),
            # the mark by which kwok takes a node for its own
            "annotations": {"kwok.x-k8s.io/node": "fake"} | dict(annotations or {}),
        },
        "spec": {"taints": [_taint(text) for text in taints]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _labels(product: str, gpus: int, labelling: Labelling) -> dict[str, str]:
    facts = PRODUCTS[product]
    if labelling is Labelling.GKE:
        return {
            "cloud.google.com/gke-gpu": "true",
            "cloud.google.com/gke-accelerator": facts.gke,
            "cloud.google.com/gke-accelerator-count": str(gpus),
        }
    if labelling is Labelling.NONE:
        return {}
    major, minor = facts.compute.split(".")
    return {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "nvidia.com/cuda.driver.major": "570",
        "nvidia.com/cuda.driver.minor": "86",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
        "nvidia.com/gpu.family": facts.family,
        "nvidia.com/gpu.memory": str(facts.memory_mib),
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/mig.capable": "true" if facts.family in MIG_FAMILIES else "false",
    }


def _taint(text: str) -> dict[str, str]:
    head, colon, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    if not colon or not key or effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise ValueError(f"taint {text!r}: must be key=value:Effect or key:Effect")
    return {"key": key, "value": value, "effect": effect}
