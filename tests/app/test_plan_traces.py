"""Whoever takes the printed inputs of a plan finds the printed values, in both planning modes.

Each step has a formula, and its name stands once.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.formulas import four_digits, trace_faults
from tests.support.statements import OF_CAPACITY, OF_PLAN

from kvscale.adapters.kubernetes.project import project_workload
from kvscale.api.parse import parse_pool
from kvscale.app.plan import Plan, plan
from kvscale.app.plan_document import whole_trace
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
MODES = ("Percentile", "OverflowProbability")
PER_KIND = {"pageBytes"}
"""Steps that stand once for each kind of layer."""


def planned(spec: dict[str, Any], **more: Any) -> Plan | Refusal:
    parsed = parse_pool(spec)
    assert isinstance(parsed, PoolSpec), parsed
    return plan("pool", parsed, compared=True, **more)


def faults(found: Plan | Refusal) -> list[str]:
    """Of a pool's plan; nothing where there is none."""
    if isinstance(found, Refusal):
        return []
    trace = whole_trace(found)
    names = [step.name for step in trace]
    return [
        *trace_faults(found.capacity.trace, OF_CAPACITY),
        *trace_faults(trace, OF_PLAN, four_digits),
        *(f"{name} stands twice" for name in set(names) - PER_KIND if names.count(name) > 1),
    ]


DOCUMENTS = [
    document
    for path in sorted(EXAMPLES.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document
]
POOLS = [each["spec"] for each in DOCUMENTS if each["kind"] == "InferencePool"]
(SERVER,) = (
    project_workload(
        "Deployment", {**each, "metadata": {**each["metadata"], "namespace": "default", "uid": "1"}}
    )
    for each in DOCUMENTS
    if each["kind"] == "Deployment" and each["metadata"]["name"] == "llama"
)
(CONFIG,) = (each["data"] for each in DOCUMENTS if each["kind"] == "ConfigMap")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spec", POOLS, ids=lambda spec: str(spec.get("model", "")))
def test_every_step_of_an_example_follows_from_its_inputs(spec, mode):
    found = planned(
        {**spec, "planning": {"mode": mode}}, workload=SERVER, gpu="NVIDIA-L4", config_map=CONFIG
    )
    assert isinstance(found, Plan), found
    assert not faults(found)


ENGINES = {
    "meta-llama/Llama-3.1-8B-Instruct": ("NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"),
    "openai/gpt-oss-20b": ("NVIDIA-H100-80GB-HBM3",),
    "google/gemma-3-4b-it": ("NVIDIA-L4", "NVIDIA-H200"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("NVIDIA-H200",),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": ("NVIDIA-B200",),
    "deepseek-ai/DeepSeek-V3": ("NVIDIA-H200",),
}
KINDS = {"vLLM": ("0.11.0", "0.32"), "SGLang": ("0.5.9", "0.5.23"), "TensorRT-LLM": ("1.3.0",)}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Pools of several models and engines under any traffic."""
    model = draw(st.sampled_from(sorted(ENGINES)))
    kind = draw(st.sampled_from(sorted(KINDS)))
    engine = {
        "kind": kind,
        "version": draw(st.sampled_from(KINDS[kind])),
        "maxModelLen": draw(st.sampled_from([4096, 8192, 32_768])),
        "maxNumSeqs": draw(st.sampled_from([8, 64, 1024])),
        "dataParallel": draw(st.sampled_from([1, 1, 2])),
        "tensorParallel": 8 if "DeepSeek" in model else 1,
    }

    def lengths(most: int) -> dict[str, float]:
        median = draw(st.integers(1, most))
        return {"p50": median, "p99": median * draw(st.integers(1, 12))}

    mean = draw(st.integers(1, 5000))
    traffic: dict[str, Any] = {
        "requestsPerMinute": {"mean": mean, "peak": mean * draw(st.integers(1, 5))},
        "promptTokens": lengths(draw(st.sampled_from([30, 3000]))),
        "outputTokens": lengths(draw(st.sampled_from([3, 600]))),
    }
    if draw(st.booleans()):
        traffic["sharedPrefix"] = {"tokens": draw(st.integers(16, 900)), "distinct": 3}
    return {
        "model": {"preset": model},
        "targets": [
            {
                "ref": {"name": "engines"},
                "engine": engine,
                "devices": {"product": draw(st.sampled_from(ENGINES[model]))},
                "cost": {"perDeviceHour": draw(st.sampled_from(["0.07", "2.5"]))},
            }
        ],
        "traffic": traffic,
        "planning": {"mode": draw(st.sampled_from(MODES))},
    }


@settings(max_examples=80)
@given(specs())
def test_every_step_of_a_plan_follows_from_its_inputs(spec):
    assert not faults(planned(spec))
