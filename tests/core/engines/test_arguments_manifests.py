"""Real manifests: what the engine of every pod in tests/data/manifests is read as.

Each file names its source and licence in its first line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.core.engines.arguments import Container, ServerArguments, choose_server
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.values import Unknown

MANIFESTS = Path(__file__).parents[2] / "data" / "manifests"


def containers_of(node: Any, path: str = "") -> Iterator[tuple[str, list[Container]]]:
    """Every pod in an object of any kind, by the path to its spec."""
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield path, [read_container(one) for one in node["containers"]]
        for key, value in node.items():
            yield from containers_of(value, f"{path}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            name = value.get("name", index) if isinstance(value, dict) else index
            yield from containers_of(value, f"{path}.{name}")


def read_container(raw: dict[str, Any]) -> Container:
    return Container(
        name=raw.get("name", ""),
        image=raw.get("image", ""),
        command=tuple(str(word) for word in raw.get("command") or ()),
        args=tuple(str(word) for word in raw.get("args") or ()),
        env={one["name"]: one.get("value") for one in raw.get("env") or ()},
    )


# file's number and a part of the pod's path; settings as stated, or the reason why there are none
SGLANG = {"kind": EngineKind.SGLANG, "options": SGLangOptions()}

EXPECTED: dict[tuple[str, str], dict[str, Any] | str] = {
    ("01", "template"): {
        "model": "/var/mdl/YOUR-MODEL-PATH",
        "max_model_len": 512,
        "served": "YOUR-MODEL-NAME",
        "port": 8000,
    },
    ("02", "template"): {
        "model": "meta-llama/Llama-3.2-1B-Instruct",
        "tensor_parallel": 1,
        "max_num_seqs": 1024,
        "port": 8000,
    },
    ("03", "spec"): {"model": "/mnt/models", "port": 8080},
    ("04", "spec.template"): "EngineUnknown",
    ("04", "prefill"): "EngineUnknown",
    ("05", "spec.template"): "EngineUnknown",
    ("05", "worker"): "EngineUnknown",
    ("10", "worker"): {
        "version": "0.11.0",
        "model": "/models/Qwen2.5-7B-Instruct/",
        "tensor_parallel": 2,
        "memory_utilization_milli": 750,
        "max_model_len": 4096,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 4096,
        "served": "qwen2.5-7b",
        "port": 8000,
    },
    ("12", "prefill"): "DisaggregatedServer",
    ("12", "decode"): "DisaggregatedServer",
    ("14", "template"): {
        "version": "0.10.0",
        "model": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
        "tensor_parallel": 8,
        "memory_utilization_milli": 950,
        "kv_cache_dtype": "auto",
        "dtype": "auto",
        "max_model_len": 131072,
        "max_num_seqs": 64,
        "port": 7080,
    },
    ("15", "leaderTemplate"): {
        "version": "0.8.5",
        "model": "/models/DeepSeek-R1",
        "tensor_parallel": 8,
        "pipeline_parallel": 2,
        "max_model_len": 4096,
        "port": 8080,
    },
    ("15", "workerTemplate"): "EngineUnknown",
    ("16", "leaderTemplate"): "EngineUnknown",
    ("16", "workerTemplate"): "EngineUnknown",
    ("17", "headGroupSpec"): "EngineUnknown",
    ("17", "workerGroupSpecs"): "EngineUnknown",
    ("19", "leaderTemplate"): {
        "model": "meta-llama/Llama-3.3-70B-Instruct",
        "tensor_parallel": 16,
        "port": 8080,
    },
    ("19", "workerTemplate"): "EngineUnknown",
    ("20", "leaderTemplate"): {
        **SGLANG,
        "model": "meta-llama/Meta-Llama-3.1-8B-Instruct",
        "tensor_parallel": 2,
        "port": 40000,
    },
    ("20", "workerTemplate"): {
        **SGLANG,
        "model": "meta-llama/Meta-Llama-3.1-8B-Instruct",
        "tensor_parallel": 2,
    },
    ("24", "prefill.entryTemplate"): "DisaggregatedServer",
    ("24", "prefill.workerTemplate"): "EngineUnknown",
    ("24", "decode.entryTemplate"): "DisaggregatedServer",
    ("24", "decode.workerTemplate"): "EngineUnknown",
    ("25", "prefill.entryTemplate"): "DisaggregatedServer",
    ("25", "prefill.workerTemplate"): "EngineUnknown",
    ("25", "decode.entryTemplate"): "DisaggregatedServer",
    ("25", "decode.workerTemplate"): "EngineUnknown",
    ("26", "entryTemplate"): {
        "model": "/tmp/test/13a7c4d58031cdc502ca1bb4a592f2b9",
        "block_size": 128,
        "memory_utilization_milli": 900,
        "max_model_len": 32768,
        "tensor_parallel": 2,
        "served": "deepseek-v3",
    },
    ("26", "workerTemplate"): "EngineUnknown",
    ("28", "prefill"): "EngineUnknown",
    ("28", "decode"): "EngineUnknown",
    ("29", "template"): {
        "version": "0.10.0",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "tensor_parallel": 2,
        "memory_utilization_milli": 900,
        "max_model_len": 2048,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 4096,
        "block_size": 64,
        "quantization": "fp8",
        "dtype": "float16",
        "served": "random/model",
        "port": 8000,
    },
    ("30", "template"): {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "max_model_len": 2048,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 16000,
        "block_size": 128,
        "served": "meta-llama/Llama-3.1-8B-Instruct",
        "port": 8000,
    },
    ("31", "template"): {  # kv_role kv_both: either side, so sized like any server
        "model": "facebook/opt-125m",
        "tensor_parallel": 2,
        "enforce_eager": True,
        "served": "facebook/opt-125m",
        "port": 8200,
    },
    ("37", "template"): {
        "version": "0.10.0",
        "model": "/models/Qwen3-32B",
        "tensor_parallel": 2,
        "memory_utilization_milli": 850,
        "max_model_len": 2048,
        "port": 8000,
    },
    ("38", "template"): {
        **SGLANG,
        "model": "/models/Qwen3-32B",
        "tensor_parallel": 2,
        "max_model_len": 2048,
        "port": 8000,
    },
    ("40", "roleTemplates"): "EngineUnknown",
    ("40", "router"): "EngineUnknown",
    ("40", "prefill"): "DisaggregatedServer",
    ("40", "decode"): "DisaggregatedServer",
    ("41", "template"): {
        "version": "0.11.0",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "memory_utilization_milli": 900,
        "max_model_len": 512,
        "max_num_seqs": 192,
        "prefix_caching": False,
    },
    ("42", "template"): {
        "version": "0.15.1",
        "model": "Qwen/Qwen3-32B",
        "tensor_parallel": 1,
        "max_num_seqs": 256,
        "max_model_len": 2048,
        "prefix_caching": False,
        "port": 8000,
    },
    ("46", "template"): {
        **SGLANG,
        "model": "/llm-folder",
        "tensor_parallel": 16,
        "port": 8000,
    },
    ("47", "leaderTemplate"): "DisaggregatedServer",
    ("47", "workerTemplate"): "DisaggregatedServer",
    ("50", "template"): {
        "model": "/mnt/models",
        "max_model_len": 8192,
        "enforce_eager": True,
        "served": "Qwen/Qwen3-0.6B",
        "port": 8000,
    },
}

PODS = [
    pytest.param(file.name[:2], path, containers, id=f"{file.name[:2]}{path}")
    for file in sorted(MANIFESTS.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    for path, containers in containers_of(document)
]


@pytest.mark.parametrize(("number", "path", "containers"), PODS)
def test_the_engine_of_a_real_pod_is_read(number, path, containers):
    expected = [
        value for (file, part), value in EXPECTED.items() if file == number and part in path
    ]
    assert len(expected) == 1, f"{number}{path} wants exactly one expectation"
    read = choose_server(containers)
    if isinstance(expected[0], str):
        assert isinstance(read, Unknown)
        assert read.reason == expected[0]
        return
    assert isinstance(read, ServerArguments)
    settings = dict(expected[0])
    assert read.served_model_name == settings.pop("served", "")
    assert read.port == settings.pop("port", None)
    assert read.engine == EngineConfig(**settings)
    assert read.stated == frozenset(settings) - {"version", "kind", "options"}
    assert read.unread == ()


def test_every_expectation_belongs_to_a_pod_of_the_data():
    for number, part in EXPECTED:
        assert any(p.values[0] == number and part in p.values[1] for p in PODS), (number, part)


def ome(number: str) -> list[Container]:
    """The runner of an OME runtime, which stands outside any list of containers."""
    file = next(MANIFESTS.glob(f"{number}_*.yaml"))
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [read_container(document["spec"]["engineConfig"]["runner"])]


def test_a_model_that_an_operator_fills_in_later_is_unread_and_the_rest_is_read():
    read = choose_server(ome("34"))
    assert isinstance(read, ServerArguments)
    assert read.engine == EngineConfig(
        version="0.20.1", tensor_parallel=1, data_parallel=4, kv_cache_dtype="fp8", block_size=256,
        max_model_len=-1, expert_parallel=True, speculative_method="mtp", speculative_tokens=1,
    )  # fmt: skip
    assert [(one.flag, one.field) for one in read.unread] == [("--model", "model")]
    assert "MODEL_PATH" in read.unread[0].message


def test_all_arguments_in_the_command_list_are_read():
    read = choose_server(ome("36"))
    assert isinstance(read, ServerArguments)
    assert read.engine == EngineConfig(
        version="0.9.0.1",
        tensor_parallel=1,
        max_num_seqs=32,
        enforce_eager=True,
        max_model_len=131072,
        memory_utilization_milli=900,
    )


def test_flags_alone_after_the_images_entrypoint_are_read():
    document = yaml.safe_load(next(MANIFESTS.glob("21_*.yaml")).read_text(encoding="utf-8"))
    container = Container("server", "vllm/vllm-openai:v0.8.3", args=tuple(document["spec"]["args"]))
    read = choose_server([container])
    assert isinstance(read, ServerArguments)
    assert read.engine == EngineConfig(
        version="0.8.3",
        max_model_len=32768,
        max_num_batched_tokens=32768,
        max_num_seqs=1024,
        tensor_parallel=8,
        memory_utilization_milli=900,
        kv_cache_dtype="fp8",
    )


def test_template_text_is_unread():
    document = yaml.safe_load(next(MANIFESTS.glob("32_*.yaml")).read_text(encoding="utf-8"))
    spec = document["spec"]
    args = tuple(spec["recommendedConfigs"][1]["args"])
    read = choose_server([Container("runner", "vllm/vllm-openai", tuple(spec["command"]), args)])
    assert isinstance(read, ServerArguments)
    assert [one.field for one in read.unread] == ["model"]
    assert read.served_model_name == ""
    assert read.engine.tensor_parallel == 1
