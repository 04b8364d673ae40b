"""Which cluster this machine can run, and where its programs are.

The first that works, in this order:

1. kind, if `docker info` answers and kind is on PATH;
2. the programs in $KUBEBUILDER_ASSETS (the folder that controller-runtime's envtest fills); it
   lacks controller manager, scheduler and kwok, which are built;
3. programs built from the pinned Go modules, cached by the hash of go.sum.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from localcluster.go_build import CLUSTER, HELM, BuildError, Say, build, cached, find_go

RUNTIME_VARIABLE = "KVSCALE_LOCALCLUSTER"  # `kind` or `processes`: skip the choice
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
KIND_NEEDS = ("kubectl", "kwok")


class Runtime(Enum):
    """What runs the control plane."""

    KIND = "kind"
    PROCESSES = "processes"


class NoClusterError(RuntimeError):
    """This machine can run no cluster; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How the cluster will run.

    Attributes:
        runtime: kind, or plain processes.
        reason: one line for the person who waits.
        found: programs that exist already, by name.
        missing: programs that have to be built.
    """

    runtime: Runtime
    reason: str
    found: Mapping[str, Path]
    missing: tuple[str, ...]


def choose(environment: Mapping[str, str] = os.environ) -> Choice:
    """Choose the first cluster that works here.

    Raises:
        NoClusterError: none does.
    """
    wanted = environment.get(RUNTIME_VARIABLE)
    if wanted not in (None, "", *(runtime.value for runtime in Runtime)):
        raise NoClusterError(f"{RUNTIME_VARIABLE}={wanted}: must be `kind` or `processes`")
    go, go_missing = find_go(CLUSTER)
    why_not = []
    if wanted != Runtime.PROCESSES.value:
        kind_missing = _why_not_kind()
        found = _on_path(KIND_NEEDS) | cached(CLUSTER, KIND_NEEDS)
        lacking = _lacking(KIND_NEEDS, found)
        if not kind_missing and (go or not lacking):
            return Choice(Runtime.KIND, "kind, because Docker answers", found, lacking)
        why_not.append(kind_missing or f"kind also needs {', '.join(lacking)}: {go_missing}")
    if wanted != Runtime.KIND.value:
        assets = environment.get(ASSETS_VARIABLE, "")
        found = cached(CLUSTER, CLUSTER.packages) | _in_folder(assets)
        lacking = _lacking(CLUSTER.packages, found)
        if go or not lacking:
            origin = f"${ASSETS_VARIABLE} ({assets})" if _in_folder(assets) else "Go modules"
            return Choice(Runtime.PROCESSES, f"plain processes, from {origin}", found, lacking)
        why_not.append(f"plain processes lack {', '.join(lacking)}: {go_missing}")
    raise NoClusterError(
        f"no local cluster can run here. Install Go {CLUSTER.go_version} or newer (the control "
        "plane is then built once, in about 15 minutes), or Docker and kind.\n  "
        + "\n  ".join(why_not)
    )


def programs(choice: Choice, say: Say = print) -> dict[str, Path]:
    """The programs of the choice, building what is missing.

    Raises:
        NoClusterError: a build failed.
    """
    try:
        return {**choice.found, **build(CLUSTER, choice.missing, say)}
    except BuildError as error:
        raise NoClusterError(str(error)) from error


def helm(say: Say = print) -> Path:
    """The pinned Helm, built on first use; without Go, the one on PATH.

    Raises:
        NoClusterError: there is neither, or the build failed.
    """
    go, reason = find_go(HELM)
    on_path = shutil.which("helm")
    if not cached(HELM, ["helm"]) and go is None:
        if on_path:
            return Path(on_path)
        raise NoClusterError(f"helm is not on PATH and cannot be built: {reason}")
    try:
        return build(HELM, ["helm"], say)["helm"]
    except BuildError as error:
        raise NoClusterError(str(error)) from error


def _why_not_kind() -> str:
    """Empty if kind works."""
    for program in ("kind", "docker"):
        if not shutil.which(program):
            return f"kind cannot run: {program} is not on PATH"
    try:
        # the client alone is often installed without an engine: only an answer counts
        docker = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "kind cannot run: `docker info` did not answer within 20 s"
    return "" if docker.returncode == 0 else "kind cannot run: `docker info` fails"


def _on_path(names: Iterable[str]) -> dict[str, Path]:
    paths = {name: shutil.which(name) for name in names}
    return {name: Path(path) for name, path in paths.items() if path}


def _in_folder(folder: str) -> dict[str, Path]:
    if not folder:
        return {}
    paths = {name: Path(folder) / name for name in CLUSTER.packages}
    return {name: path for name, path in paths.items() if os.access(path, os.X_OK)}


def _lacking(names: Iterable[str], found: Mapping[str, Path]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in found)
