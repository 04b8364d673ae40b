"""A real Kubernetes control plane on one machine, for tests and the demo.

API server, scheduler and controllers are the real programs; only the kubelet is simulated, by
kwok, so a node with eight GPUs costs one API object. The standard library alone is needed.
"""

from localcluster.binaries import NoClusterError, helm
from localcluster.cluster import Cluster, KubectlError
from localcluster.control_plane import ControlPlane
from localcluster.kind_cluster import KindCluster
from localcluster.nodes import SHUTDOWN_SECONDS, STARTUP_SECONDS, Labelling, gpu_node
from localcluster.opening import open_cluster
from localcluster.waiting import eventually

__all__ = [
    "SHUTDOWN_SECONDS",
    "STARTUP_SECONDS",
    "Cluster",
    "ControlPlane",
    "KindCluster",
    "KubectlError",
    "Labelling",
    "NoClusterError",
    "eventually",
    "gpu_node",
    "helm",
    "open_cluster",
]
