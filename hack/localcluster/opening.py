"""The usual way in: the first cluster that this machine can run."""

from pathlib import Path

from localcluster.binaries import Runtime, choose, programs
from localcluster.cluster import Cluster
from localcluster.control_plane import ControlPlane
from localcluster.go_build import Say
from localcluster.kind_cluster import KindCluster


def open_cluster(directory: Path | None = None, say: Say = print) -> Cluster:
    """A cluster to be entered by `with`; what is missing is built first.

    Raises:
        NoClusterError: this machine can run none; the message says what to install.
    """
    choice = choose()
    say(f"local cluster: {choice.reason}")
    found = programs(choice, say)
    if choice.runtime is Runtime.KIND:
        return KindCluster(found, directory, say)
    return ControlPlane(found, directory, say)
