"""What `explain` says to change, from a pool and its workload as the cluster stores them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.adapters.kubernetes.project import project_workload
from kvscale.app.advice import TITLE, advice_lines
from kvscale.app.tables import WIDTH
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

MANIFEST = Path(__file__).parents[2] / "examples" / "vllm-llama-3.1-8b-l4.yaml"
EFFECTIVE = {"effective": {"device": {"product": "NVIDIA-L4", "memoryBytes": 1}}}


@pytest.fixture
def workload() -> WorkloadRecord:
    objects = [one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if one]
    raw: dict[str, Any] = next(one for one in objects if one["kind"] == "Deployment")
    raw["metadata"] = {"namespace": "default", "uid": "u", **raw["metadata"]}
    return project_workload("Deployment", raw)


def pool(**spec: Any) -> dict[str, Any]:
    return {"spec": {"targets": [{"ref": {"name": "llama"}}], **spec}, "status": EFFECTIVE}


def test_the_levers_are_those_of_the_server_on_the_device_that_runs_it(
    workload: WorkloadRecord,
) -> None:
    lines = advice_lines("llama", pool(), workload, None)
    assert lines[1] == TITLE
    text = "\n".join(lines)
    assert "--kv-cache-dtype fp8" in text
    assert "for 1 x NVIDIA-L4" in text
    assert "USD/million" in text
    assert max(map(len, lines)) <= WIDTH
    assert text.isascii()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"spec": {}}, "targets"),
        ({}, "targets"),
        (pool(model={"preset": "nobody/knows"}), "nobody/knows"),
        ({"spec": pool()["spec"], "status": {"effective": []}}, "device"),
        ({"spec": pool()["spec"]}, "device"),
    ],
)
def test_what_keeps_it_from_an_answer_is_said(
    workload: WorkloadRecord, broken: dict[str, Any], why: str
) -> None:
    lines = advice_lines("llama", broken, workload, None)
    assert lines[1] == TITLE
    assert lines[2].startswith("not known")
    assert why in "\n".join(lines)


def test_a_workload_that_is_not_read_is_said() -> None:
    lines = advice_lines("llama", pool(), Unknown("TargetNotFound", "no such Deployment"), None)
    assert lines == ["", TITLE, "not known  no such Deployment"]
