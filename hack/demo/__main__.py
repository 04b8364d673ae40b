"""`python -m demo`: play it, sum it up, draw it; 0 if the pool scaled out and in as it should."""

import asyncio
import signal
import sys

from demo.engines import engine_settings
from demo.manifests import DemoError, Objects, objects
from demo.picture import Timeline, draw
from demo.play import Played, clear_output, play
from demo.programme import programme
from demo.rounds import write_decisions
from demo.screen import say
from demo.stage import RECORD, add_nodes, install_chart
from demo.story import FACTOR, GPUS_PER_NODE, NODES, OUTPUT, ROOT, TURNS, traffic
from demo.summary import Moves, peak, report, service, shortcomings, static
from kvscale.sim.arrivals import Workload
from localcluster import KubectlError, NoClusterError, open_cluster
from localcluster.certificates import CertificateError
from localcluster.cluster import ClusterError

INTERRUPTED = 130


def main() -> int:
    """Run the demo; whatever it started is gone when it ends, however it ends."""
    # also where a shell has started us in the background, with SIGINT ignored
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        wanted, workload = objects(), traffic()
        played = _play(wanted, workload)
        return _conclude(wanted, workload, played)
    except KeyboardInterrupt:
        say("\ninterrupted; everything that was started has been stopped")
        return INTERRUPTED
    except (
        NoClusterError, ClusterError, CertificateError, KubectlError, DemoError, AssertionError,
    ) as error:  # fmt: skip
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _play(wanted: Objects, workload: Workload) -> Played:
    clear_output()
    with open_cluster(say=say) as cluster:
        say(f"nodes: {NODES} with {GPUS_PER_NODE} GPUs each")
        add_nodes(cluster)
        say("chart: helm install (CRD, roles, service account; the operator runs here)")
        install_chart(cluster)
        for line in programme(wanted, workload):
            say(line)
        return asyncio.run(play(cluster, wanted, workload))


def _conclude(wanted: Objects, workload: Workload, played: Played) -> int:
    rounds, plan = played.rounds, wanted.plan
    decisions = write_decisions(rounds, OUTPUT / "decisions.jsonl")
    dynamic = service(played.finished, played.device_seconds)
    constant = static(
        workload,
        engine_settings(plan),
        peak(rounds),
        plan.devices_per_replica,
        played.ended - played.began,
    )
    say("")
    for line in played.status.splitlines():
        say(line)
    say("")
    for line in report(dynamic, constant, rounds):
        say(line)
    pictures = draw(_timeline(wanted, workload, played), OUTPUT)
    say("")
    for path in pictures:
        say(f"{path.relative_to(ROOT)}")
    say(f"{(OUTPUT / 'decisions.jsonl').relative_to(ROOT)}: {decisions} decisions")
    say(f"{RECORD.relative_to(ROOT)}: every round, for `kvscale decide`")
    found = shortcomings(rounds)
    for sentence in found:
        print(f"demo: {sentence}", file=sys.stderr)
    return 1 if found else 0


def _timeline(wanted: Objects, workload: Workload, played: Played) -> Timeline:
    rounds, plan = played.rounds, wanted.plan
    moves = Moves.of(rounds)
    return Timeline(
        title=(
            f"kvscale: {rounds[0].current} → {peak(rounds)} → {rounds[-1].current} replicas by "
            f"KV-cache memory, {len(moves.out)} scale-outs, {len(moves.back)} scale-ins"
        ),
        subtitle=(
            f"{plan.shape.name} on {plan.device.product}, one GPU a replica. Real control "
            f"plane and operator, simulated engines, time {FACTOR:g} times as fast as life"
        ),
        load=(
            f"Load: recorded chat traffic, of which the pool is sent {TURNS[0].percent:g} %, then "
            f"all, then {TURNS[-1].percent:g} %"
        ),
        arrivals=[played.began + one.arrived_at for one in workload.requests],
        rounds=rounds,
        target=plan.spec.scaling.target_occupancy_percent / 100,
        limit=NODES * GPUS_PER_NODE // plan.devices_per_replica,
    )


if __name__ == "__main__":
    sys.exit(main())
