"""A large cluster in memory: the objects an API server would list, read by our own projections.

Several models on several kinds of GPU, pools from a few pods to hundreds, nodes as GPU feature
discovery labels them, and a little more demand for devices than there are, so that placement has
to refuse. Everything is drawn from one seed.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from kvscale.adapters.kubernetes.project import (
    project_node,
    project_pod,
    project_pool,
    project_workload,
)
from kvscale.ports import ClusterView
from localcluster import gpu_node

NAMESPACES = 40
GPUS_PER_NODE = 8
CREATED = "2026-01-05T10:00:00Z"
READY = "2026-01-05T10:02:00Z"
START = datetime.fromisoformat(READY).timestamp() + 300.0
"""Five minutes after the pods were ready: what is unschedulable may still find a node."""
GPU = "nvidia.com/gpu"
TEMPLATE_HASH = "5d9f7c"
TAIL = 0.6
"""Exponent of the pools' sizes by rank: the largest of 1,000 has 2 % of the pods."""

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A model on a kind of GPU, how its server is started, and the blocks that it reports."""

    model: str
    product: str
    kv_blocks: int
    arguments: tuple[str, ...]
    devices: int = 1


SMALL = (
    Served(
        "meta-llama/Llama-3.1-8B-Instruct",
        "NVIDIA-L4",
        2_323,
        ("--max-model-len=8192", "--max-num-seqs=64", "--max-num-batched-tokens=2048"),
    ),
    Served("Qwen/Qwen2.5-7B-Instruct", "NVIDIA-L4", 6_065, ("--max-model-len=16384",)),
    Served("Qwen/Qwen3-8B", "NVIDIA-A100-SXM4-40GB", 9_126, ("--max-model-len=32768",)),
    Served(
        "mistralai/Mistral-7B-v0.3", "NVIDIA-A100-SXM4-40GB", 11_244, ("--max-model-len=32768",)
    ),
    Served("Qwen/Qwen3-30B-A3B", "NVIDIA-H200", 47_470, ("--max-model-len=32768",)),
    Served(
        "meta-llama/Llama-3.1-8B-Instruct",
        "NVIDIA-H100-80GB-HBM3",
        57_224,
        ("--max-model-len=65536", "--kv-cache-dtype=fp8"),
    ),
)
"""Models on one device: most pools."""

LARGE = (
    Served(
        "Qwen/Qwen3-32B",
        "NVIDIA-H100-80GB-HBM3",
        20_210,
        ("--tensor-parallel-size=2", "--max-model-len=32768"),
        devices=2,
    ),
    Served(
        "meta-llama/Llama-3.1-70B-Instruct",
        "NVIDIA-H100-80GB-HBM3",
        30_585,
        ("--tensor-parallel-size=4", "--max-model-len=65536"),
        devices=4,
    ),
)
"""Models on several devices: one pool in 25."""

ONE_LARGE_IN = 25


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster is."""

    pools: int = 1_000
    pods: int = 10_000
    nodes: int = 1_250


@dataclass(frozen=True, slots=True)
class Listed:
    """The raw objects, as JSON texts: what lists of an API server carry.

    Attributes:
        kv_blocks: that the engines of a pod report, by the pod's ReplicaSet.
    """

    pools: tuple[bytes, ...]
    workloads: tuple[bytes, ...]
    pods: tuple[bytes, ...]
    nodes: tuple[bytes, ...]
    kv_blocks: Mapping[str, int]

    def view(self) -> ClusterView:
        """Decoded and projected, as the caches of the operator hold them."""
        workloads = [project_workload("Deployment", orjson.loads(raw)) for raw in self.workloads]
        pools = (project_pool(orjson.loads(raw)) for raw in self.pools)
        return ClusterView(
            pools=tuple(pool for pool in pools if pool is not None),
            workloads={record.ref: record for record in workloads},
            pods=tuple(project_pod(orjson.loads(raw)) for raw in self.pods),
            nodes=tuple(project_node(orjson.loads(raw)) for raw in self.nodes),
        )


@dataclass(slots=True)
class _Racks:
    """Free devices of the nodes of each product."""

    free: dict[str, list[tuple[str, int]]]

    def place(self, product: str, devices: int) -> str:
        """A node with so many free devices, taken; "" when there is none."""
        nodes = self.free[product]
        while nodes and nodes[-1][1] == 0:
            nodes.pop()
        for position in range(len(nodes) - 1, -1, -1):
            name, left = nodes[position]
            if left >= devices:
                nodes[position] = (name, left - devices)
                return name
        return ""


def build(size: Size, seed: int = 1) -> Listed:
    """The cluster's objects."""
    draw = random.Random(seed)  # noqa: S311 - a benchmark, no secret
    counts = pool_sizes(size.pools, size.pods)
    served = [_served(rank, draw) for rank in range(size.pools)]
    racks, nodes = _racks(size.nodes, served, counts)
    # The first pod of every pool finds its node before any second one: the largest pools wait.
    order = sorted((index, rank) for rank, count in enumerate(counts) for index in range(count))
    members: list[list[Raw]] = [[] for _ in counts]
    for index, rank in order:
        node = racks.place(served[rank].product, served[rank].devices)
        members[rank].append(_pod(rank, index, served[rank], node))
    pools = [_pool(rank, served[rank], count, draw) for rank, count in enumerate(counts)]
    workloads = [_workload(rank, served[rank], members[rank]) for rank in range(size.pools)]
    pods = [pod for pool in members for pod in pool]
    return Listed(
        pools=_texts(pools),
        workloads=_texts(workloads),
        pods=_texts(pods),
        nodes=_texts(nodes),
        kv_blocks={_owner(rank): kind.kv_blocks for rank, kind in enumerate(served)},
    )


def _texts(objects: Iterable[Raw]) -> tuple[bytes, ...]:
    return tuple(map(orjson.dumps, objects))


def pool_sizes(pools: int, pods: int) -> list[int]:
    """Pods of each pool, largest first; they add up."""
    weights = [(rank + 1) ** -TAIL for rank in range(pools)]
    share = (pods - pools) / sum(weights)
    counts = [1 + int(weight * share) for weight in weights]
    for rank in range(pods - sum(counts)):
        counts[rank % pools] += 1
    return counts


def _served(rank: int, draw: random.Random) -> Served:
    if rank % ONE_LARGE_IN == ONE_LARGE_IN - 1:
        return draw.choice(LARGE)
    return draw.choice(SMALL)


def _racks(nodes: int, served: Sequence[Served], counts: Sequence[int]) -> tuple[_Racks, list[Raw]]:
    """Nodes of each product in proportion to the devices that its pods ask for."""
    wanted: dict[str, int] = {}
    for kind, count in zip(served, counts, strict=True):
        wanted[kind.product] = wanted.get(kind.product, 0) + count * kind.devices
    total, made = sum(wanted.values()), 0
    racks, objects = _Racks({}), []
    for number, (product, devices) in enumerate(sorted(wanted.items())):
        last = number == len(wanted) - 1
        count = nodes - made if last else round(nodes * devices / total)
        names = [f"node-{made + index:04}" for index in range(count)]
        racks.free[product] = [(name, GPUS_PER_NODE) for name in names]
        objects += [_node(name, product) for name in names]
        made += count
    return racks, objects


def _node(name: str, product: str) -> Raw:
    node = gpu_node(name, product=product, gpus=GPUS_PER_NODE)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return node


def _name(rank: int) -> str:
    return f"pool-{rank:04}"


def _owner(rank: int) -> str:
    return f"{_name(rank)}-{TEMPLATE_HASH}"


def _metadata(rank: int, name: str, **more: Any) -> Raw:
    namespace = f"team-{rank % NAMESPACES:02}"
    return {
        "namespace": namespace,
        "name": name,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": CREATED,
        "resourceVersion": "100",
        "generation": 1,
        **more,
    }


def _pool(rank: int, kind: Served, count: int, draw: random.Random) -> Raw:
    """A pool with declared traffic of its own: no two ask the planner the same question."""
    prompt, output = draw.randint(300, 1500), draw.randint(80, 400)
    mean = count * draw.randint(10, 60)
    traffic = {
        "requestsPerMinute": {"mean": mean, "peak": 3 * mean},
        "promptTokens": {"mean": prompt, "p95": 3 * prompt},
        "outputTokens": {"mean": output, "p95": 3 * output},
    }
    spec = {
        "model": {"preset": kind.model},
        "targets": [{"ref": {"name": _name(rank)}}],
        "traffic": traffic,
        "scaling": {"maxReplicas": 2 * count + 2},
    }
    return {"metadata": _metadata(rank, _name(rank)), "spec": spec, "status": {}}


def _template(rank: int, kind: Served) -> Raw:
    requests = {"cpu": "4", "memory": "24Gi", GPU: str(kind.devices)}
    container = {
        "name": "vllm",
        "image": "docker.io/vllm/vllm-openai:v0.32.0",
        "args": [f"--model={kind.model}", "--port=8000", *kind.arguments],
        "ports": [{"containerPort": 8000}],
        "resources": {"requests": requests, "limits": {GPU: str(kind.devices)}},
    }
    return {
        "metadata": {"labels": {"app": _name(rank)}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"nvidia.com/gpu.product": kind.product},
            "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def _workload(rank: int, kind: Served, members: Sequence[Raw]) -> Raw:
    count = len(members)
    ready = sum(pod["status"]["phase"] == "Running" for pod in members)
    return {
        "metadata": _metadata(rank, _name(rank)),
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": _name(rank)}},
            "template": _template(rank, kind),
        },
        "status": {
            "observedGeneration": 1,
            "replicas": count,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": count,
        },
    }


def _pod(rank: int, index: int, kind: Served, node: str) -> Raw:
    owner = _owner(rank)
    references = [{"controller": True, "kind": "ReplicaSet", "name": owner}]
    metadata = _metadata(rank, f"{owner}-{index:05}", ownerReferences=references)
    metadata["labels"] = {"app": _name(rank), "pod-template-hash": TEMPLATE_HASH}
    spec = _template(rank, kind)["spec"] | ({"nodeName": node} if node else {})
    return {"metadata": metadata, "spec": spec, "status": _status(index, running=bool(node))}


def _status(index: int, *, running: bool) -> Raw:
    if not running:
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": READY,
        }
        return {"phase": "Pending", "conditions": [unschedulable]}
    conditions: list[Mapping[str, str]] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED},
        {"type": "Ready", "status": "True", "lastTransitionTime": READY},
    ]
    states = [{"name": "vllm", "restartCount": 0, "state": {"running": {"startedAt": CREATED}}}]
    address = f"192.0.2.{1 + index % 250}"  # a range for documentation: nothing answers there
    return {
        "phase": "Running",
        "podIP": address,
        "conditions": conditions,
        "containerStatuses": states,
    }
