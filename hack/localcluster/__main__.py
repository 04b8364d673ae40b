"""`python -m localcluster build | up`."""

import argparse
import signal
import sys

from localcluster.binaries import NoClusterError, choose, helm, programs
from localcluster.certificates import CertificateError
from localcluster.cluster import ClusterError
from localcluster.opening import open_cluster


def main() -> int:
    """Build the programs, or run a cluster until Ctrl-C; 1 if that cannot be."""
    parser = argparse.ArgumentParser(prog="localcluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what is missing, Helm included, into the cache")
    up = commands.add_parser("up", help="run a cluster until Ctrl-C")
    up.add_argument("--nodes", type=int, default=2, help="fake nodes with 8 H100 each")
    arguments = parser.parse_args()
    try:
        if arguments.command == "build":
            _build()
        else:
            _up(arguments.nodes)
    except (NoClusterError, ClusterError, CertificateError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _build() -> None:
    choice = choose()
    _say(f"local cluster: {choice.reason}")
    for path in (*programs(choice, _say).values(), helm(_say)):
        _say(f"  {path}")


def _up(nodes: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open_cluster(say=_say) as cluster:
        for number in range(nodes):
            cluster.add_gpu_node(f"gpu-{number}")
        _say(f"{nodes} fake GPU nodes; Ctrl-C ends it. In another terminal:")
        _say(f"  export KUBECONFIG={cluster.kubeconfig}")
        signal.pause()


def _say(line: str) -> None:
    print(line, flush=True)  # a pipe buffers, and a silent build looks like a hung one


if __name__ == "__main__":
    sys.exit(main())
