"""`capacity --config` with a file that is none: one line that says why, exit code 2, soon."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvscale.cli.app import app
from kvscale.cli.output import run

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
QWEN = (CONFIGS / "Qwen--Qwen3-8B" / "config.json").read_text().strip()
SLOWEST_SECONDS = 5.0

Said = Callable[[Path], tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def call(path: Path) -> tuple[int, str, str]:
        start = time.process_time()
        code = run(app, ["capacity", "--gpu", "H200", "--config", str(path)])
        assert time.process_time() - start < SLOWEST_SECONDS
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def with_key(text: str) -> str:
    return f"{QWEN[:-1]},{text}}}"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b" \n", "is not JSON"),
        (bytes(range(256)) * 16, "is not UTF-8 text"),
        (QWEN.encode("utf-16"), "is not UTF-8 text"),
        (b'{"a": "' + b"x" * 50_000_000 + b'"}', "larger than 4 MiB"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (QWEN[:200].encode(), "is not JSON"),
        (b"[1, 2]", "holds no JSON object"),
        (b"null", "holds no JSON object"),
        (b"{}", "architectures[0]"),
        (b'{"architectures": ["\\ud800"]}', "architectures[0]"),
        (b'{"architectures": "LlamaForCausalLM"}', "architectures"),
        (with_key('"x": ' + "9" * 10_000).encode(), "is not JSON"),
        (with_key('"num_hidden_layers": ' + "9" * 4000).encode(), "num_hidden_layers"),
        (with_key('"num_hidden_layers": NaN').encode(), "num_hidden_layers"),
        (with_key('"hidden_size": "4096"').encode(), "hidden_size"),
        (with_key('"quantization_config": {"quant_method": "\\n\\n"}').encode(), "quant_method"),
    ],
    ids=range(18),
)
def test_a_hostile_config_is_one_line(
    said: Said, tmp_path: Path, content: bytes, says: str
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    code, out, err = said(file)
    assert (code, out) == (2, "")
    assert err.startswith("kvscale: ")
    assert err.count("\n") == 1
    assert len(err) < 700
    assert says in err


def test_a_directory_without_config_json(said: Said, tmp_path: Path) -> None:
    code, out, err = said(tmp_path)
    assert (code, out) == (2, "")
    assert err == (
        f"kvscale: --config: {tmp_path}/config.json cannot be read: No such file or directory\n"
    )


def test_a_directory_in_the_place_of_config_json(said: Said, tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    code, _, err = said(tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "Is a directory" in err


@pytest.mark.parametrize("beside", ["", "not JSON", "[]", '{"quantization": 5}'])
def test_a_broken_file_of_the_quantisation(said: Said, tmp_path: Path, beside: str) -> None:
    (tmp_path / "config.json").write_text(QWEN)
    (tmp_path / "hf_quant_config.json").write_text(beside)
    code, out, err = said(tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "quant" in err


def read(said: Said, path: Path) -> dict[str, Any]:
    code, out, err = said(path)
    assert (code, err) == (0, "")
    return dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)


def test_a_byte_order_mark_changes_nothing(said: Said, tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text(QWEN)
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + QWEN.encode())
    assert read(said, tmp_path / "marked.json") == read(said, tmp_path / "plain.json")


def test_of_a_key_that_stands_twice_the_last_counts_as_for_the_engine(
    said: Said, tmp_path: Path
) -> None:
    (tmp_path / "twice.json").write_text(with_key('"num_hidden_layers": 12'))
    changed = json.loads(QWEN) | {"num_hidden_layers": 12}
    (tmp_path / "once.json").write_text(json.dumps(changed))
    assert read(said, tmp_path / "twice.json") == read(said, tmp_path / "once.json")


def test_infinity_stands_in_published_configs(said: Said) -> None:
    folder = CONFIGS / "nvidia--Nemotron-H-56B-Base-8K"
    assert "Infinity" in (folder / "config.json").read_text()
    assert read(said, folder)
