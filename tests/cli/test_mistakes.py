"""Whatever a user types or names: one line on stderr, exit code 2, no traceback, in bounded time."""

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import kvscale.__main__  # noqa: F401 - adds the command `operator`
from kvscale.app.record import Record, decode, encode
from kvscale.cli.app import app
from kvscale.cli.output import run
from kvscale.core.decide.state import State
from kvscale.core.snapshot import Snapshot
from kvscale.core.values import Unknown

MODEL = ("capacity", "--model", "meta-llama/Llama-3.1-8B", "--gpu", "L4")
POOL = {
    "apiVersion": "kvscale.io/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "llama"},
    "spec": {
        "targets": [{"ref": {"name": "llama"}, "engine": {"maxModelLen": 8192}}],
        "model": {"preset": "meta-llama/Llama-3.1-8B"},
    },
}
RECORD = Record(Snapshot(1e9, (), Unknown("No")), State(), 1e9)
KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}
LONG = "x" * 5000

Mistake = Callable[..., str]


@pytest.fixture
def mistake(capsys: pytest.CaptureFixture[str]) -> Mistake:
    def call(*arguments: object) -> str:
        code = run(app, [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert (code, captured.out) == (2, "")
        assert captured.err.startswith("kvscale: ")
        assert captured.err.count("\n") == 1
        assert len(captured.err) < 700
        return captured.err

    return call


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*MODEL, "--max-num-seqs", "9" * 20), "--max-num-seqs is 9999"),
        ((*MODEL, "--max-num-batched-tokens", "9" * 11), "to 2147483648"),
        ((*MODEL, "--tensor-parallel-size", "3"), "must divide"),
        ((*MODEL, "--gpu", "x" * 5000), "NVIDIA-L4"),
        ((*MODEL, "--kv-memory-gib", "1e-30"), "more memory"),
        (("capacity", "--config", LONG, "--gpu", "L4"), "--config: xxx"),
        (("capacity", "--config", "/dev/zero", "--gpu", "L4"), "larger than 4 MiB"),
        (("plan", "-f", LONG), "-f: xxx"),
        (("plan", "-f", "/dev/zero"), "larger than 1 MiB"),
        (("decide", LONG), "SNAPSHOT.json: xxx"),
        (("decide", "/"), "Is a directory"),
        (("explain", ""), "NAMESPACE/NAME is ''"),
        (("explain", "default/"), "as in default/llama"),
        (("operator", "--log-format", "xml"), "--log-format xml"),
        (("operator", "--liveness", "nonsense"), "--liveness nonsense"),
        (("operator", "--liveness", "http://127.0.0.1:99999/x"), "give http://"),
        (("operator", "--interval", "inf"), "'--interval'"),
        (("operator", "--interval", "nan"), "'--interval'"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(
    mistake: Mistake, arguments: tuple[str, ...], says: str
) -> None:
    assert says in mistake(*arguments)


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, []) == 2
    captured = capsys.readouterr()
    assert "capacity" in captured.out
    assert captured.err == "kvscale: name a command (see --help)\n"


def test_the_engines_own_spellings_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    length = ("--max-model-len", "8192", "-o", "json")
    short = ("--tensor-parallel", "2", "--memory-utilization", "0.8", "--pipeline-parallel", "2")
    engines = (
        "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.8",
        "--pipeline-parallel-size", "2",
    )  # fmt: skip
    found = []
    for spelled in (short, engines):
        assert run(app, [*MODEL, *length, *spelled]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "kubeconfig"),
        ("hello", "kubeconfig"),
        (KUBECONFIG | {"clusters": 5}, "kubeconfig"),
        (KUBECONFIG | {"clusters": [{"name": "c", "cluster": {"server": 5}}]}, "kubeconfig"),
        (KUBECONFIG | {"clusters": [{"name": "c", "cluster": {"server": "x y"}}]}, "give its URL"),
        (KUBECONFIG | {"current-context": "no"}, "no"),
        (KUBECONFIG, "is the API server up? Name another by --kubeconfig"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere(
    mistake: Mistake, tmp_path: Path, content: object, says: str
) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(content))
    assert says in mistake("explain", "default/llama", "--kubeconfig", file)


@pytest.mark.parametrize("name", ["a/b/c", "../x", "a%2f/b"])
def test_a_name_leads_nowhere_else(mistake: Mistake, tmp_path: Path, name: str) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(KUBECONFIG))
    assert "is no name" in mistake("explain", name, "--kubeconfig", file)


def test_a_binary_file_is_no_kubeconfig(mistake: Mistake, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"\x7fELF\xd0\xcf")
    assert "kubeconfig" in mistake("explain", "default/llama", "--kubeconfig", file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("spec: {targets: []}\n", "'spec' is there twice"),
        ("other: {a: 1, b: [{c: 1, c: 2}], a: 3}\n", "'c' is there twice"),
        (f"other: {'1:' * 100_000}1\n", "a number of 200001 characters"),
        ("other: {a: {a: 1}, b: {a: 1}, ? [a] : 1, a: 2}\n", "'a' is there twice"),
    ],
)
def test_yaml_that_is_a_trap_is_refused(
    mistake: Mistake, tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(POOL) + text)
    assert says in mistake("plan", "-f", file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"apiVersion": "kvscale.io/v9"}, "it holds: kvscale.io/v9 InferencePool"),
        (
            {"spec": POOL["spec"] | {"scaling": {"maxReplcas": 5}}},
            "spec.scaling.maxReplcas: there is no such field: did you mean maxReplicas?",
        ),
        (
            {"spec": {"targets": [{"ref": {"name": "llama"}, 5: 1}]}},
            "spec.targets[0].5: there is no such field: leave it out",
        ),
    ],
)
def test_what_kubectl_would_not_apply_is_not_planned(
    mistake: Mistake, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(POOL | change))
    assert says in mistake("plan", "-f", file, "--gpu", "H100")


def test_a_plain_pool_is_planned(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(POOL))
    assert run(app, ["plan", "-f", str(file), "--gpu", "H100"]) == 0


def test_a_record_of_another_version_says_so(mistake: Mistake, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    record = json.loads(encode(RECORD))
    file.write_text(json.dumps(record | {"kvscale": "99.0", "state": 5}))
    assert "kvscale 99.0 made it" in mistake("decide", file)


def test_a_record_without_a_snapshot_says_what_to_give(mistake: Mistake, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text("{}")
    assert "give a file that --record has written" in mistake("decide", file)


def test_a_bare_snapshot_is_taken_with_an_empty_memory() -> None:
    bare = json.dumps(json.loads(encode(RECORD))["snapshot"]).encode()
    assert decode(bare) == RECORD
    assert decode(encode(RECORD)) == RECORD
    assert replace(RECORD, version="99.0").other_version != ""


def test_an_output_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, os.strerror(28))

    monkeypatch.setattr(sys, "stdout", Full())
    assert run(app, ["version"]) == 1
    assert capsys.readouterr().err == (
        "kvscale: the output cannot be written: No space left on device\n"
    )


def test_a_reader_that_leaves_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert run(app, ["version"]) == 1
