"""Nothing that the local cluster starts may outlive the program that started it."""

import os
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import eventually
from localcluster.processes import Child, free_ports

SLEEP = ["sleep", "600"]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    child = Child("sleeper", SLEEP, tmp_path / "sleeper.log")
    yield child
    child.stop()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def parent_of_a_sleeper(tmp_path: Path, ending: str) -> subprocess.Popen[str]:
    """A program that starts a child, prints its pid, and ends in the given way."""
    program = f"""
        import os, signal, sys
        from pathlib import Path
        from localcluster.processes import Child
        child = Child("sleeper", {SLEEP!r}, Path({str(tmp_path / "log")!r}))
        child.start()
        print(child.pid, flush=True)
        {ending}
    """
    hack = str(Path(__file__).parents[2] / "hack")
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": hack},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.parametrize(
    "ending",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGINT)",
        "sys.exit('an error')",
        "",
    ],
    ids=["killed", "terminated", "interrupted", "failed", "forgot-to-stop"],
)
def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path, ending: str) -> None:
    with parent_of_a_sleeper(tmp_path, ending) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.wait()
    eventually(lambda: not alive(pid), "the child is gone")


def test_a_child_started_by_a_thread_outlives_that_thread(child: Child) -> None:
    starter = threading.Thread(target=child.start)
    starter.start()
    starter.join()
    # a death signal would come at once, with the thread's end; the child answers signal 0 since
    os.kill(child.pid, 0)
    assert child.running


def test_ctrl_c_reaches_the_parent_alone(child: Child) -> None:
    child.start()
    assert os.getpgid(child.pid) == child.pid
    assert os.getpgid(child.pid) != os.getpgrp()


def test_a_stopped_child_starts_again(child: Child) -> None:
    child.start()
    first = child.pid
    child.stop()
    assert not child.running
    assert not alive(first)
    child.start()
    assert child.pid != first


def test_a_second_start_is_refused(child: Child) -> None:
    child.start()
    with pytest.raises(RuntimeError, match="sleeper is running already"):
        child.start()


def test_a_graceful_stop_lets_the_child_finish(tmp_path: Path) -> None:
    script = "trap 'echo finished; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    child = Child("polite", ["sh", "-c", script], tmp_path / "polite.log")
    child.start()
    eventually(lambda: "started" in child.log_tail(), "the trap is set")
    child.stop(graceful=True)
    assert child.log_tail().endswith("finished")


def test_the_report_of_an_ended_child_has_its_code_and_log(tmp_path: Path) -> None:
    child = Child("broken", ["sh", "-c", "echo the reason; exit 3"], tmp_path / "broken.log")
    child.start()
    eventually(lambda: not child.running, "it ended")
    assert "broken ended with code 3" in child.report()
    assert "the reason" in child.report()


def test_free_ports_are_distinct_and_not_the_kernels_to_give_away() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if setting.exists():
        first, last = map(int, setting.read_text().split())
        assert not [port for port in ports if first <= port <= last]


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr("secrets.randbelow", lambda _: port - 20_000)  # look there first
    assert free_ports(1) == [port]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert free_ports(1) != [port]
