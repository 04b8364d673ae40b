"""Building the programs of the local cluster from their Go modules.

`go.sum` beside this file verifies every byte; its hash names the cache folder, so a change of
version builds anew and a second run starts at once. A half-finished build leaves nothing that
could be taken for a program, and two processes never build the same thing twice.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

HERE = Path(__file__).parent
HEARTBEAT_SECONDS = 30  # a silent build looks like a hung one
COLD_BUILD_BYTES = 6 << 30  # measured: modules 1.5 GiB, build cache 3.9 GiB, programs 0.5 GiB
K8S_VERSION = "k8s.io/component-base/version"


class BuildError(RuntimeError):
    """A program could not be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class GoModule:
    """A folder with go.mod and go.sum that pins programs.

    Attributes:
        directory: the folder.
        packages: main package of each program.
    """

    directory: Path
    packages: Mapping[str, str]

    @property
    def cache(self) -> Path:
        """Where the module's programs are kept, outside the repository."""
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        digest = hashlib.sha256((self.directory / "go.sum").read_bytes()).hexdigest()
        return root / "kvscale" / f"{self.directory.name}-{digest[:16]}"

    @property
    def go_version(self) -> str:
        """The oldest Go that builds the module, such as `1.26.0`."""
        return self._find(r"^go (\S+)$")

    def version_of(self, module: str) -> str:
        """The pinned version of a required module, such as `v1.37.2`."""
        return self._find(rf"^(?:require)?\s*{re.escape(module)} (v\S+)")

    def _find(self, pattern: str) -> str:
        found = re.search(pattern, (self.directory / "go.mod").read_text(), re.MULTILINE)
        if not found:
            raise BuildError(f"{self.directory / 'go.mod'} has no line like {pattern!r}")
        return found[1]

    def linker_flags(self, program: str) -> str:
        """Stripped, and with the version that the program reports (else `v0.0.0-master`)."""
        if program == "helm":
            version = self.version_of("helm.sh/helm/v4")
            return f"-s -w -X helm.sh/helm/v4/internal/version.version={version}"
        version = self.version_of("k8s.io/kubernetes")
        major, minor, _ = version.removeprefix("v").split(".", 2)
        return (
            f"-s -w -X {K8S_VERSION}.gitVersion={version}"
            f" -X {K8S_VERSION}.gitMajor={major} -X {K8S_VERSION}.gitMinor={minor}"
        )


CLUSTER = GoModule(
    HERE,
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    },
)
HELM = GoModule(HERE / "helm", {"helm": "helm.sh/helm/v4/cmd/helm"})


def find_go(module: GoModule) -> tuple[Path | None, str]:
    """A Go that can build the module, or None and the reason.

    Go installs to /usr/local/go by default, which is often not on a script's PATH.
    """
    wanted = f"Go {module.go_version} or newer"
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not found:
        return None, f"{wanted} is not installed"
    # asked in the module's folder: Go 1.21 and newer then say which toolchain they would really use
    asked = subprocess.run(
        [found, "version"], cwd=module.directory, capture_output=True, text=True, check=False
    )
    version = re.search(r"\bgo(\d+(?:\.\d+)*)", asked.stdout)
    if asked.returncode or not version:
        return None, f"{found} cannot be used: {asked.stderr.strip() or 'no version'}"
    if _numbers(version[1]) < _numbers(module.go_version):
        return None, f"{found} is Go {version[1]}; {wanted} is needed"
    return Path(found), ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def cached(module: GoModule, programs: Iterable[str]) -> dict[str, Path]:
    """The programs that are built already."""
    paths = {name: module.cache / name for name in programs}
    return {name: path for name, path in paths.items() if path.is_file()}


def build(module: GoModule, programs: Iterable[str], say: Say = print) -> dict[str, Path]:
    """Build what is missing, one program at a time, and return the path of each.

    Raises:
        BuildError: no usable Go, no room, or the compiler failed.
    """
    names = list(dict.fromkeys(programs))
    if len(cached(module, names)) == len(names):
        return cached(module, names)
    go, reason = find_go(module)
    if go is None:
        raise BuildError(f"cannot build {', '.join(names)}: {reason}")
    try:
        module.cache.mkdir(parents=True, exist_ok=True)
        with _only_one_builder(module.cache, say):
            missing = [name for name in names if name not in cached(module, names)]
            _warn_of_little_room(module.cache, say)
            for number, name in enumerate(missing, 1):
                say(f"building {name} ({number} of {len(missing)}), once, into {module.cache}")
                _build_one(module, name, go, say)
    except OSError as error:
        raise BuildError(f"cannot build into {module.cache}: {error}") from error
    return cached(module, names)


@contextmanager
def _only_one_builder(cache: Path, say: Say) -> Iterator[None]:
    with (cache / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building into {cache}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(".partial-*"):  # of a build that was interrupted
            leftover.unlink()
        yield


def _warn_of_little_room(cache: Path, say: Say) -> None:
    free = shutil.disk_usage(cache).free
    if free < COLD_BUILD_BYTES:  # no error: most of it may be in Go's caches already
        say(
            f"a first build needs up to {COLD_BUILD_BYTES >> 30} GiB of disk, {cache} has "
            f"{free / (1 << 30):.1f} GiB left"
        )


def _build_one(module: GoModule, name: str, go: Path, say: Say) -> None:
    partial = module.cache / f".partial-{name}"
    flags = ["-trimpath", "-ldflags", module.linker_flags(name), "-o", str(partial)]
    started = time.monotonic()
    log = module.cache / f"{name}.build.log"
    with log.open("w") as output:
        compiler = subprocess.Popen(
            [go, "build", *flags, module.packages[name]],
            cwd=module.directory,
            env=os.environ | {"CGO_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while _still_running(compiler):
                say(f"  {name}: {time.monotonic() - started:.0f} s, still building")
        finally:
            compiler.kill()
            compiler.wait()
    if compiler.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        full = "no space left on device" in tail
        hint = "the disk is full: free some, or move XDG_CACHE_HOME, GOCACHE and GOMODCACHE\n"
        raise BuildError(
            f"`go build` of {name} failed; {hint if full else ''}the end of {log}:\n{tail}"
        )
    partial.replace(module.cache / name)
    say(f"  {name}: built in {time.monotonic() - started:.0f} s")


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=HEARTBEAT_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False
