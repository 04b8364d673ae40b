"""From pressure in an engine's metrics to the new replica count at the API server.

The operator is a process of its own at its real interval, the API server is the real one, time is
real. Each step presses a pool of its own, so that no stabilisation of one step slows the next; the
pauses between steps are drawn from a whole interval, so that a step falls anywhere in it.
"""

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.example_engine import MODEL, ON_L4, engine_settings
from bench.figures import Figure, percentile, seconds
from bench.metrics_pages import Load, MetricsPages
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.errors import ApiError
from localcluster import Cluster, eventually, open_cluster
from localcluster.processes import Child

ROOT = Path(__file__).parents[2]
CRD = ROOT / "crds" / "kvscale.io_inferencepools.yaml"
NAMESPACE = "reaction"
INTERVAL_SECONDS = 5.0
STEPS = 50
GIVE_UP_SECONDS = 60.0
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
GOAL = f"goal: p95 within {INTERVAL_SECONDS + 1:g} s"


def run() -> list[Figure]:
    """The latencies of all steps."""
    with open_cluster(say=_say) as cluster:
        _furnish(cluster)
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> list[Figure]:
    settings = engine_settings("NVIDIA-L4", ON_L4)
    usable = settings.usable_blocks
    idle = Load(used_blocks=usable // 2, running=20, waiting=0)
    pressed = Load(used_blocks=usable, running=40, waiting=30)
    watch = ReplicaWatch(cluster.kubeconfig)
    async with MetricsPages(settings, idle) as pages:
        with watch.running(), _operator(cluster, pages.url) as operator:
            await asyncio.to_thread(_settled, cluster, operator)
            draw = random.Random(1)  # noqa: S311 - a benchmark, no secret
            latencies = [await _step(name, pages, pressed, watch, draw) for name in _names()]
    return [
        Figure(
            "pressure to replicas, p50",
            seconds(median(latencies)),
            f"wall, {len(latencies)} steps at an interval of {INTERVAL_SECONDS:g} s: on average "
            "half of it passes until the next round",
        ),
        Figure("pressure to replicas, p95", f"**{seconds(percentile(latencies, 95))}**", GOAL),
        Figure("least and most", f"{seconds(min(latencies))}, {seconds(max(latencies))}", ""),
    ]


async def _step(
    name: str, pages: MetricsPages, load: Load, watch: "ReplicaWatch", draw: random.Random
) -> float:
    """Press one pool at a random moment; seconds until the API server shows another count."""
    await asyncio.sleep(draw.uniform(0, INTERVAL_SECONDS))
    started = pages.press(name, load)
    return await asyncio.to_thread(watch.changed, name) - started


@dataclass(slots=True)
class ReplicaWatch:
    """When the API server first told of a count other than 1, by Deployment."""

    kubeconfig: Path
    _seen: dict[str, float] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch, on a thread of its own."""
        client = Client(load_configuration(str(self.kubeconfig)))
        version = client.get(DEPLOYMENTS)["metadata"]["resourceVersion"]
        stream = client.stream(DEPLOYMENTS, {"watch": "true", "resourceVersion": version})

        ended = threading.Event()

        def read() -> None:
            try:
                for event in stream:
                    self._note(event["object"], time.monotonic())
            except ApiError:
                if not ended.is_set():
                    raise  # otherwise it is the interruption below

        thread = threading.Thread(target=read, name="replica watch")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            stream.interrupt()
            thread.join()
            stream.close()
            client.close()

    def _note(self, deployment: dict[str, Any], at: float) -> None:
        name = deployment["metadata"]["name"]
        with self._news:
            if deployment["spec"]["replicas"] != 1 and name not in self._seen:
                self._seen[name] = at
                self._news.notify_all()

    def changed(self, name: str) -> float:
        """Wait for it; the moment, on the monotonic clock.

        Raises:
            TimeoutError: it does not come.
        """
        with self._news:
            if not self._news.wait_for(lambda: name in self._seen, GIVE_UP_SECONDS):
                raise TimeoutError(f"{name} was not scaled within {GIVE_UP_SECONDS:g} s")
            return self._seen[name]


@contextmanager
def _operator(cluster: Cluster, metrics_url: str) -> Iterator[Child]:
    """`kvscale operator` as users run it, but for where metrics are."""
    command: list[str | Path] = [
        sys.executable, "-m", "kvscale", "operator",
        "--kubeconfig", cluster.kubeconfig,
        "--interval", f"{INTERVAL_SECONDS:g}",
        "--scrape-url-template", metrics_url + "/{namespace}/{pod}{path}",
        "--liveness", "",
    ]  # fmt: skip
    child = Child("operator", command, cluster.directory / "operator.log")
    child.start()
    try:
        yield child
    finally:
        child.stop(graceful=True)


def _names() -> list[str]:
    return [f"step-{number:02}" for number in range(STEPS)]


def _furnish(cluster: Cluster) -> None:
    """Nodes, and for each step a Deployment and its pool, all ready."""
    cluster.apply(CRD.read_text(encoding="utf-8"))
    crd = "crd/inferencepools.kvscale.io"
    cluster.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
    cluster.create_namespace(NAMESPACE)
    for number in range(3):
        cluster.add_gpu_node(f"node-{number}", product="NVIDIA-L4", gpus=64, cpu="512")
    documents = [document for name in _names() for document in (_deployment(name), _pool(name))]
    cluster.apply(json.dumps(_list(documents)), namespace=NAMESPACE)
    ready = ("wait", "deployment", "--all", "--for=condition=Available", "--timeout=100s")
    cluster.kubectl(*ready, "--namespace", NAMESPACE)
    _say(f"{STEPS} pools with a ready pod each; the steps take {STEPS * INTERVAL_SECONDS:.0f} s")


def _settled(cluster: Cluster, operator: Child) -> None:
    """Wait until the operator has demand of every pool."""

    def all_known() -> bool:
        pools = cluster.get("inferencepools.kvscale.io", "--namespace", NAMESPACE)["items"]
        lacking = [pool for pool in pools if "demand" not in pool.get("status", {})]
        if lacking:
            first = lacking[0].get("status", {}).get("decision", {}).get("message", "no status")
            raise AssertionError(f"{len(lacking)} pools without; {first}; {operator.report()}")
        return True

    eventually(
        all_known,
        "every pool's demand known",
        within=GIVE_UP_SECONDS,
        every=1.0,
        give_up=lambda: None if operator.running else operator.report(),
    )


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _pool(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kvscale.io/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": {"targets": [{"ref": {"name": name}}], "scaling": {"maxReplicas": 3}},
    }


def _deployment(name: str) -> dict[str, Any]:
    container = {
        "name": "vllm",
        "image": "docker.io/vllm/vllm-openai:v0.32.0",
        "args": [
            f"--model={MODEL}",
            f"--max-model-len={ON_L4.max_model_len}",
            f"--max-num-seqs={ON_L4.max_num_seqs}",
            f"--max-num-batched-tokens={ON_L4.max_num_batched_tokens}",
        ],
        "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
