"""Where the programs come from: built once, never half-built, and a clear word if they cannot be."""

import fcntl
import os
import shutil
import threading
from pathlib import Path

import pytest

from localcluster import NoClusterError, eventually
from localcluster.binaries import Runtime, choose
from localcluster.go_build import CLUSTER, HELM, BuildError, GoModule, build, find_go

GO = """#!/bin/sh
case "$1" in
version) echo "go version go{version} linux/amd64" ;;
build)
    while [ "$1" != -o ]; do shift; done
    echo "$3" >> {record}
    printf '#!/bin/sh\\n' > "$2"
    {ending}
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for stand-ins, beside which no program is found; and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv(
        "PATH", f"{folder}:{os.environ['PATH']}"
    )  # stand-ins need a shell's commands
    real_which = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name, path=None: real_which(name, path=folder) if not path else None
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def install(folder: Path, name: str, script: str = "#!/bin/sh\n") -> None:
    program = folder / name
    program.write_text(script)
    program.chmod(0o755)


def install_go(folder: Path, version: str = "1.26.8", ending: str = "") -> Path:
    """A compiler that records what it is asked to build; `ending` runs after the output exists."""
    record = folder / "record"
    record.touch()
    install(folder, "go", GO.format(version=version, record=record, ending=ending))
    return record


@pytest.fixture
def module(tmp_path: Path) -> GoModule:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module m\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.37.2\n")
    (folder / "go.sum").write_text("sums\n")
    return GoModule(folder, {"one": "example.org/one", "two": "example.org/two"})


def test_only_what_is_missing_is_built(tools: Path, module: GoModule) -> None:
    record = install_go(tools)
    build(module, ["one"], say=lambda _: None)
    paths = build(module, ["one", "two"], say=lambda _: None)
    assert record.read_text().split() == ["example.org/one", "example.org/two"]
    assert all(os.access(path, os.F_OK) for path in paths.values())


def test_what_is_built_already_needs_no_compiler(tools: Path, module: GoModule) -> None:
    install_go(tools)
    build(module, ["one"], say=lambda _: None)
    (tools / "go").unlink()
    assert build(module, ["one"], say=lambda _: None)["one"].is_file()


def test_a_change_of_go_sum_builds_anew(tools: Path, module: GoModule) -> None:
    record = install_go(tools)
    build(module, ["one"], say=lambda _: None)
    (module.directory / "go.sum").write_text("other sums\n")
    build(module, ["one"], say=lambda _: None)
    assert record.read_text().split() == ["example.org/one", "example.org/one"]


def test_a_failed_build_leaves_no_program_and_shows_the_compilers_words(
    tools: Path, module: GoModule
) -> None:
    install_go(tools, ending="echo 'undefined: x' >&2; exit 1")
    with pytest.raises(
        BuildError, match=r"`go build` of one failed; the end of .*\n.*undefined: x"
    ):
        build(module, ["one"], say=lambda _: None)
    assert not (module.cache / "one").exists()


def test_a_full_disk_is_named(tools: Path, module: GoModule) -> None:
    install_go(tools, ending="echo 'write: no space left on device' >&2; exit 1")
    with pytest.raises(BuildError, match="the disk is full: free some, or move XDG_CACHE_HOME"):
        build(module, ["one"], say=lambda _: None)


def test_an_unwritable_cache_is_named(
    tools: Path, module: GoModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tools)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"cannot build into .*file"):
        build(module, ["one"], say=lambda _: None)


def test_the_leftover_of_an_interrupted_build_is_no_program(tools: Path, module: GoModule) -> None:
    record = install_go(tools)
    module.cache.mkdir(parents=True)
    (module.cache / ".partial-one").write_text("half")
    path = build(module, ["one"], say=lambda _: None)["one"]
    assert path.read_text() == "#!/bin/sh\n"
    assert record.read_text().split() == ["example.org/one"]
    assert not list(module.cache.glob(".partial-*"))


def test_two_processes_do_not_build_the_same_twice(tools: Path, module: GoModule) -> None:
    record = install_go(tools)
    module.cache.mkdir(parents=True)
    said: list[str] = []
    with (module.cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process builds
        second = threading.Thread(target=build, args=(module, ["one"], said.append))
        second.start()
        eventually(lambda: any("waiting" in line for line in said), "the second one waits")
        (module.cache / "one").write_text("built by the first")
    second.join()
    assert record.read_text() == ""


@pytest.mark.parametrize("version", ["1.20.3", "1.25.9"])
def test_an_old_go_is_refused_with_the_version_needed(
    tools: Path, module: GoModule, version: str
) -> None:
    install_go(tools, version)
    go, reason = find_go(module)
    assert go is None
    assert f"is Go {version}; Go 1.26.0 or newer is needed" in reason


def test_the_programs_report_the_pinned_version(module: GoModule) -> None:
    assert "gitVersion=v1.37.2" in module.linker_flags("one")
    assert f"gitVersion={CLUSTER.version_of('k8s.io/kubernetes')}" in CLUSTER.linker_flags("kwok")
    assert f"version={HELM.version_of('helm.sh/helm/v4')}" in HELM.linker_flags("helm")


def test_docker_comes_first(tools: Path) -> None:
    install_go(tools)
    install(tools, "kind")
    install(tools, "docker")
    assert choose({}).runtime is Runtime.KIND


@pytest.mark.usefixtures("tools")
def test_nothing_at_all_gives_one_message_with_both_ways_out() -> None:
    with pytest.raises(NoClusterError) as error:
        choose({})
    message = str(error.value)
    assert f"Install Go {CLUSTER.go_version} or newer" in message
    assert "or Docker and kind" in message
    assert "kind is not on PATH" in message


def test_a_docker_client_without_an_engine_is_no_docker(tools: Path) -> None:
    install_go(tools)
    install(tools, "kind")
    install(tools, "docker", "#!/bin/sh\nexit 1\n")
    assert choose({}).runtime is Runtime.PROCESSES


def test_kubebuilder_assets_are_used_and_only_the_rest_is_built(
    tools: Path, tmp_path: Path
) -> None:
    install_go(tools)
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        install(assets, name)
    choice = choose({"KUBEBUILDER_ASSETS": str(assets)})
    assert choice.runtime is Runtime.PROCESSES
    assert choice.found["etcd"] == assets / "etcd"
    assert set(choice.missing) == {"kube-controller-manager", "kube-scheduler", "kwok"}


def test_the_choice_can_be_made_by_hand(tools: Path) -> None:
    install_go(tools)
    install(tools, "kind")
    install(tools, "docker")
    assert choose({"KVSCALE_LOCALCLUSTER": "processes"}).runtime is Runtime.PROCESSES
    with pytest.raises(NoClusterError, match="must be `kind` or `processes`"):
        choose({"KVSCALE_LOCALCLUSTER": "minikube"})
