"""Setting the stage: GPU nodes, the chart, and the operator with its own service account."""

import subprocess
import sys
from pathlib import Path

from demo.manifests import NAMESPACE, DemoError
from demo.story import FACTOR, GPUS_PER_NODE, INTERVAL_SECONDS, NODES, OUTPUT, PRODUCT, ROOT
from localcluster import Cluster, helm
from localcluster.processes import Child

RELEASE = "kvscale"
OPERATOR_NAMESPACE = "kvscale-system"
CHART = ROOT / "charts" / "kvscale"
RECORD = OUTPUT / "record"
OPERATOR_LOG = OUTPUT / "operator.log"


def add_nodes(cluster: Cluster) -> None:
    """GPU nodes with the labels of real ones, and a namespace for the model."""
    for number in range(NODES):
        cluster.add_gpu_node(
            f"gpu-{number}", product=PRODUCT, gpus=GPUS_PER_NODE, cpu="48", memory="192Gi"
        )
    cluster.create_namespace(NAMESPACE)


def install_chart(cluster: Cluster) -> None:
    """CRD, roles, service account and Deployment of the operator, as a user installs them.

    The Deployment is scaled to 0: the operator runs as a process here, under the same account.

    Raises:
        DemoError: helm refused.
    """
    command: list[str | Path] = [
        helm(), "install", RELEASE, CHART,
        "--kubeconfig", cluster.kubeconfig,
        "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"helm install: {done.stderr.strip()}")
    cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", OPERATOR_NAMESPACE, "--replicas=0")
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/inferencepools.kvscale.io", "--timeout=60s"
    )


def operator(cluster: Cluster, metrics_url: str, zero: float) -> Child:
    """The operator as a process: its own token, the demo's clock, the fleet's metrics.

    Args:
        cluster: to work on.
        metrics_url: base address of the simulated engines' metrics.
        zero: epoch second at which the demo's clock begins to run faster than life.
    """
    kubeconfig = cluster.service_account_kubeconfig(OPERATOR_NAMESPACE, RELEASE)
    command: list[str | Path] = [
        sys.executable, "-m", "kvscale", "operator",
        "--kubeconfig", kubeconfig,
        "--lease-namespace", OPERATOR_NAMESPACE,
        "--interval", f"{INTERVAL_SECONDS:g}",
        "--compress-time", f"{FACTOR:g}@{zero!r}",
        "--scrape-url-template", metrics_url + "/{namespace}/{pod}{path}",
        "--record", RECORD,
        "--liveness", "",
    ]  # fmt: skip
    return Child("operator", command, OPERATOR_LOG)
