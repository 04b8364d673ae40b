"""Child processes that never outlive us, and the ports they listen on."""

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STOP_SECONDS = 20.0

# Linux kills a child with PR_SET_PDEATHSIG when the *thread* that forked it ends. A test may well
# start a component from a short-lived worker thread; one thread that lives as long as the
# interpreter starts them all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="localcluster-spawner")
_living: "weakref.WeakSet[Child]" = weakref.WeakSet()


class Child:
    """One program: its own process group (Ctrl-C reaches us alone, and we stop it), its own log."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [str(part) for part in command]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; a second start while it runs is an error."""
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        # setpriv (util-linux) sets the death signal after the fork, without a preexec_fn, which is
        # unsafe beside threads; where it is missing (macOS), atexit alone cleans up
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        self._process = _spawner.submit(self._spawn, prefix + self._command).result()
        _living.add(self)
        if prefix:
            self._await_death_signal(prefix[0])

    def _await_death_signal(self, setpriv: str) -> None:
        """Wait until setpriv has become the program: had we died before, it would live on."""
        shown = Path(f"/proc/{self._process.pid if self._process else 0}/cmdline")
        deadline = time.monotonic() + STOP_SECONDS
        while self.running and time.monotonic() < deadline:
            try:
                if shown.read_bytes().split(b"\0")[0].decode() not in {setpriv, "setpriv", ""}:
                    return
            except OSError:
                return  # ended, or no /proc: nothing to wait for
            time.sleep(0.001)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id.

        Raises:
            RuntimeError: it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    def stop(self, *, graceful: bool = False) -> None:
        """SIGKILL, and wait; with `graceful` SIGTERM first, and 20 s to follow it."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM if graceful else signal.SIGKILL)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)
        _living.discard(self)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def report(self) -> str:
        """Whether it runs, or how it ended, with the end of its log."""
        code = self._process.poll() if self._process else None
        state = "runs" if self.running else f"ended with code {code}"
        return f"{self.name} {state}; the end of {self.log}:\n{self.log_tail()}"

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@atexit.register
def _stop_the_living() -> None:
    for child in list(_living):
        child.stop()


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, outside the range that the kernel gives to clients.

    From inside that range, the kernel may hand our port to any client while a component is
    down, and a client that retries a closed local port there can even connect to itself; both
    make the component's restart on its own port fail.
    """
    lowest, beyond = 20_000, _first_client_port()
    start = secrets.randbelow(beyond - lowest)
    ports: list[int] = []
    for offset in range(beyond - lowest):
        port = lowest + (start + offset) % (beyond - lowest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} free ports between {lowest} and {beyond}")


def _first_client_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 49_152  # IANA's range
    return first if first > 21_000 else 32_768  # noqa: PLR2004 - a range that leaves no room below
