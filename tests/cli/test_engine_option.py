"""`kvscale capacity --engine`: SGLang and TensorRT-LLM by name, their own settings, and mistakes."""

import json

import pytest
from typer.testing import CliRunner

from kvscale.cli.app import app

LLAMA = ("capacity", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100")
RUNNER = CliRunner()


def document(*flags):
    result = RUNNER.invoke(app, [*LLAMA, *flags, "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mistake(*flags):
    result = RUNNER.invoke(app, [*LLAMA, *flags])
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("name", ["sglang", "SGLang", "SGLANG"])
def test_sglang_in_any_spelling(name):
    found = document("--engine", name, "--engine-version", "0.5.9")
    assert found["refusal"] is None
    assert found["bytesPerBlock"] == 131_072
    assert {"memFractionStatic", "freeBeforeLoadBytes"} <= {step["name"] for step in found["trace"]}


@pytest.mark.parametrize("name", ["trtllm", "TensorRT-LLM", "tensorrt_llm"])
def test_tensorrt_llm_in_any_spelling(name):
    found = document("--engine", name)
    assert found["bytesPerBlock"] == 32 * 131_072


def test_settings_of_one_engine():
    capped = document("--engine", "sglang", "--max-total-tokens", "100000")
    assert capped["kvCacheSizeTokens"] == 100_000
    apart = document(
        "--engine", "sglang", "--tensor-parallel", "4", "--data-parallel", "4",
        "--enable-dp-attention",
    )  # fmt: skip
    assert apart["bytesPerBlock"] == 131_072
    fraction = document("--engine", "sglang", "--mem-fraction-static", "0.5")
    steps = {step["name"]: step["value"] for step in fraction["trace"]}
    assert steps["memFractionStatic"] == 0.5


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--engine", "llamacpp"), "--engine"),
        (("--swa-full-tokens-ratio", "0.5"), "--swa-full-tokens-ratio"),
        (("--max-total-tokens", "5"), "--max-total-tokens"),
        (("--engine", "trtllm", "--max-mamba-cache-size", "5"), "--max-mamba-cache-size"),
        (("--engine", "sglang", "--swa-full-tokens-ratio", "nan"), "--swa-full-tokens-ratio"),
        (("--engine", "sglang", "--mamba-full-memory-ratio", "-1"), "--mamba-full-memory-ratio"),
        (("--engine", "sglang", "--engine-version", "0.3.1"), "0.4"),
        (
            ("--engine", "sglang", "--data-parallel", "3", "--enable-dp-attention"),
            "--data-parallel",
        ),
    ],
)
def test_mistakes_are_one_line_with_the_option(flags, told):
    assert told in mistake(*flags)
