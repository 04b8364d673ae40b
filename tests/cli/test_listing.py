"""`kvscale devices` and `kvscale presets`: every name that the other commands take."""

import json

import pytest

from kvscale.cli.app import app
from kvscale.cli.output import run
from kvscale.core.devices.table import CARDS, find_device
from kvscale.core.model.presets import PRESET_NAMES

Captured = pytest.CaptureFixture[str]


def test_every_device_is_listed_under_a_name_that_is_taken(capsys: Captured) -> None:
    assert run(app, ["devices", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["devices"]
    assert [one["name"] for one in found] == [card.product for card in CARDS]
    for one in found:
        device = find_device(one["name"])
        assert one["memoryBytes"] == getattr(device, "memory_bytes", None)
    assert run(app, ["devices"]) == 0
    page = capsys.readouterr().out
    assert max(len(line) for line in page.splitlines()) <= 100
    assert "NVIDIA-L4 " in page


def test_presets_are_listed_with_their_layers(capsys: Captured) -> None:
    assert run(app, ["presets", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["presets"]
    assert [one["name"] for one in found] == list(PRESET_NAMES)
    assert all(one["parameters"] > 0 and one["layers"] for one in found)
    by_name = {one["name"]: one["layers"] for one in found}
    assert by_name["meta-llama/Llama-3.1-8B"] == {"FullAttention": 32}


def test_a_word_narrows_the_presets(capsys: Captured) -> None:
    assert run(app, ["presets", "LLAMA-3.1-8b"]) == 0
    page = capsys.readouterr().out
    assert "meta-llama/Llama-3.1-8B " in page
    assert "Qwen" not in page
    assert run(app, ["presets", "no-such-word"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
