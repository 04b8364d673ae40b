"""Shape, engine and device of a pool, from its spec, its workload and the nodes."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.app.resolve import Resolution, resolve
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.inventory import NodeState, PodNeeds, Requirement, Taint, Toleration
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.spec import (
    ConfigMapRef,
    DeviceOverrides,
    EngineOverrides,
    PoolSpec,
    TargetSpec,
)
from kvscale.core.values import GIB, Unknown
from kvscale.records import ContainerRecord, EnvVar, WorkloadRecord, WorkloadRef

GPU = "nvidia.com/gpu"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
COMMAND = ("vllm", "serve", MODEL)
IMAGE = "vllm/vllm-openai:v0.11.0"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def container(
    *flags: str,
    command: tuple[str, ...] = COMMAND,
    name: str = "vllm",
    gpus: int = 1,
    env: tuple[EnvVar, ...] = (),
    image: str = IMAGE,
) -> ContainerRecord:
    return ContainerRecord(name, image, command, flags, env, {GPU: gpus} if gpus else {})


def workload(*containers: ContainerRecord, needs: PodNeeds | None = None) -> WorkloadRecord:
    containers = containers or (container(),)
    gpus = sum(one.requests.get(GPU, 0) for one in containers)
    return WorkloadRecord(
        ref=WorkloadRef("Deployment", "default", "llama"),
        uid="u",
        resource_version="1",
        generation=1,
        observed_generation=1,
        replicas=1,
        status_replicas=1,
        ready_replicas=1,
        available_replicas=1,
        updated_replicas=1,
        paused=False,
        selector={"app": "llama"},
        containers=containers,
        needs=replace(needs or PodNeeds(), requests={GPU: gpus, "cpu": 1000} if gpus else {}),
        template_key="t",
    )


def spec(
    model: Any = None,
    engine: EngineOverrides | None = None,
    devices: DeviceOverrides | None = None,
    container_name: str = "",
) -> PoolSpec:
    target = TargetSpec(
        "Deployment",
        "llama",
        container_name=container_name,
        engine=engine or EngineOverrides(),
        devices=devices or DeviceOverrides(),
    )
    return PoolSpec(target=target, model=model)


def node(name: str, product: str = "NVIDIA-L4", gpus: int = 1, **more: Any) -> NodeState:
    labels = {f"{GPU}.product": product, **more.pop("labels", {})}
    return NodeState(name, labels, {GPU: gpus, "cpu": 8000}, {}, **more)


NODES = (node("a"), NodeState("cpu-only", {}, {"cpu": 64000}, {}))


def only(reason: str, value: object) -> str:
    """The message of an Unknown of that reason."""
    assert isinstance(value, Unknown), value
    assert value.reason == reason
    assert value.message
    return value.message


def test_the_smallest_pool_is_resolved_from_arguments_and_nodes():
    found = resolve(spec(), workload(container("--max-model-len=8k", "--port", "8080")), NODES)
    assert found == Resolution(
        shape=preset(MODEL),
        engine=EngineConfig(version="0.11.0", model=MODEL, max_model_len=8000),
        device=find_device("NVIDIA-L4"),
        device_resource=GPU,
        devices_per_pod=1,
        port=8080,
    )


# ---- engine


def test_an_override_wins_and_the_contradiction_is_shown():
    found = resolve(
        spec(engine=EngineOverrides(tensor_parallel=2, max_model_len=4096)),
        workload(container("--tensor-parallel-size", "4", gpus=2)),
        NODES,
    )
    assert isinstance(found.engine, EngineConfig)
    assert (found.engine.tensor_parallel, found.engine.max_model_len) == (2, 4096)
    assert found.contradictions == (
        "targets[0].engine.tensorParallel is 2, the server's arguments say 4: the override is used",
    )


def test_an_override_that_agrees_is_no_contradiction():
    engine = EngineOverrides(EngineKind.VLLM, version="0.11", tensor_parallel=2, max_num_seqs=64)
    flags = ("-tp", "2", "--max-num-seqs", "64")
    found = resolve(spec(engine=engine), workload(container(*flags, gpus=2)), NODES)
    assert found.contradictions == ()


def test_a_parallelism_that_the_arguments_leave_at_one_contradicts_an_override():
    engine = EngineOverrides(tensor_parallel=2)
    found = resolve(spec(engine=engine), workload(container(gpus=2)), NODES)
    assert found.contradictions == (
        (
            "targets[0].engine.tensorParallel is 2, the server's arguments do not state it, which means "
            "1: the override is used"
        ),
    )


def test_a_version_that_differs_from_the_images_tag_is_a_contradiction():
    found = resolve(spec(engine=EngineOverrides(version="0.32")), workload(), NODES)
    assert found.contradictions == (
        "targets[0].engine.version is 0.32, the image's tag says 0.11.0: the override is used",
    )


def test_an_argument_that_cannot_be_read_leaves_the_engine_unknown_until_the_spec_states_it():
    load = workload(container("-tp", "$(TP)", env=(EnvVar("TP", None),), gpus=2))
    message = only("ArgumentUnread", resolve(spec(), load, NODES).engine)
    assert "targets[0].engine.tensorParallel" in message
    found = resolve(spec(engine=EngineOverrides(tensor_parallel=2)), load, NODES)
    assert isinstance(found.engine, EngineConfig)
    assert found.engine.tensor_parallel == 2
    assert found.contradictions == ()


def test_a_script_is_unknown_until_the_spec_names_the_engine():
    load = workload(container(command=("./start.sh",), gpus=8))
    assert "./start.sh" in only("EngineUnknown", resolve(spec(), load, NODES).engine)
    engine = EngineOverrides(kind=EngineKind.VLLM, tensor_parallel=8)
    found = resolve(spec(MODEL, engine), load, NODES)
    assert found.engine == EngineConfig(tensor_parallel=8)
    assert any("./start.sh" in note for note in found.notes)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("text-generation-launcher", "--model-id", "m"), "EngineNotSupported"),
        (
            ("sglang", "serve", "--model-path", "m", "--disaggregation-mode", "decode"),
            "DisaggregatedServer",
        ),
        (
            ("vllm", "serve", "m", "--kv-transfer-config", '{"kv_role":"kv_producer"}'),
            "DisaggregatedServer",
        ),
    ],
)
def test_a_server_that_is_not_sized_is_refused_with_its_reason(command, reason):
    only(reason, resolve(spec(MODEL), workload(container(command=command)), NODES).engine)


def test_an_sglang_server_is_resolved_and_a_wrong_kind_is_shown():
    command = ("python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--tp", "1")
    load = workload(container(command=command, image="lmsysorg/sglang:v0.5.9"))
    found = resolve(spec(), load, NODES)
    assert found.shape == preset(MODEL)
    assert (found.engine.kind, found.engine.version) == (EngineKind.SGLANG, "0.5.9")
    other = resolve(spec(engine=EngineOverrides(kind=EngineKind.VLLM)), load, NODES)
    assert (other.engine.kind, other.engine.options) == (EngineKind.VLLM, None)
    assert any("engine.kind is vLLM" in text for text in other.contradictions)


def test_no_override_makes_a_prefill_worker_a_server():
    flags = ("--kv-transfer-config", '{"kv_role":"kv_consumer"}')
    engine = EngineOverrides(kind=EngineKind.VLLM)
    only(
        "DisaggregatedServer",
        resolve(spec(engine=engine), workload(container(*flags)), NODES).engine,
    )


def test_the_container_with_devices_runs_the_engine():
    decoy = container(name="download", gpus=0)
    found = resolve(spec(), workload(decoy, container("-tp", "1")), NODES)
    assert isinstance(found.engine, EngineConfig)


def test_a_container_that_does_not_exist_is_told():
    found = resolve(spec(container_name="gone"), workload(), NODES)
    assert "vllm" in only("ContainerNotFound", found.engine)


# ---- model


def test_a_preset_wins_over_the_server_argument():
    shape = resolve(spec("Qwen/Qwen3-32B"), workload(), NODES).shape
    assert shape == preset("Qwen/Qwen3-32B")


def test_an_unknown_preset_names_its_field():
    message = only("ModelUnknown", resolve(spec("no/such"), workload(), NODES).shape)
    assert "spec.model.preset" in message


def test_a_shape_by_hand_is_taken_as_it_is():
    shape = preset(MODEL)
    assert isinstance(shape, ModelShape)
    by_hand = replace(shape, name="mine")
    assert resolve(spec(by_hand), workload(), NODES).shape is by_hand


def test_a_config_map_is_read_as_a_config_json():
    data = {"config.json": json.dumps(CONFIG)}
    shape = resolve(spec(ConfigMapRef("llama")), workload(), NODES, data).shape
    assert isinstance(shape, ModelShape)
    assert (shape.name, shape.layers, shape.hidden_size) == ("llama", 32, 4096)


def test_the_quantisation_of_a_config_map_is_read_from_its_own_key():
    ref = ConfigMapRef("llama", "c", "q")
    fp8 = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    data = {"c": json.dumps(CONFIG), "q": json.dumps(fp8)}
    shape = resolve(spec(ref), workload(), NODES, data).shape
    plain = resolve(spec(ConfigMapRef("llama", "c")), workload(), NODES, data).shape
    assert isinstance(shape, ModelShape)
    assert shape.kv_cache_dtype.startswith("fp8")
    assert shape != plain


@pytest.mark.parametrize(
    ("data", "ref", "part"),
    [
        ({"other": "{}"}, ConfigMapRef("cm"), "'config.json' (it has other)"),
        ({}, ConfigMapRef("cm"), "it has no key"),
        ({"config.json": "{"}, ConfigMapRef("cm"), "no JSON"),
        ({"config.json": "[" * 100_000}, ConfigMapRef("cm"), "no JSON"),
        ({"config.json": "[]"}, ConfigMapRef("cm"), "no JSON object"),
        ({"config.json": "{}"}, ConfigMapRef("cm", "config.json", "q"), "'q'"),
    ],
)
def test_a_config_map_that_cannot_be_read_names_the_key(data, ref, part):
    message = only("ConfigMapInvalid", resolve(spec(ref), workload(), NODES, data).shape)
    assert part in message
    assert "'cm'" in message


def test_a_config_that_is_wrong_names_the_key_at_fault():
    data = {"config.json": json.dumps({**CONFIG, "hidden_size": "wide"})}
    message = only(
        "ModelConfigInvalid", resolve(spec(ConfigMapRef("cm")), workload(), NODES, data).shape
    )
    assert "hidden_size" in message


def test_a_missing_config_map_keeps_its_reason():
    gone = Unknown("ConfigMapNotFound", "ConfigMap cm does not exist")
    assert resolve(spec(ConfigMapRef("cm")), workload(), NODES, gone).shape == gone
    only("ConfigMapNotFound", resolve(spec(ConfigMapRef("cm")), workload(), NODES).shape)


@pytest.mark.parametrize(
    ("command", "noted"),
    [
        (("vllm", "serve", MODEL), False),
        (("vllm", "serve", f"/cache/{MODEL}/"), True),
        (("vllm", "serve", "/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e"), True),
        (("vllm", "serve", "/mnt/models", "--served-model-name", MODEL), True),
        (("vllm", "serve", "$(MODEL_PATH)", "--served-model-name", MODEL), True),
    ],
)
def test_the_model_is_named_by_the_server_and_a_guess_is_noted(command, noted):
    found = resolve(spec(), workload(container(command=command)), NODES)
    assert found.shape == preset(MODEL)
    assert any("the model is taken to be" in note for note in found.notes) == noted


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (("vllm", "serve", "/models/Qwen3-32B"), "Qwen/Qwen3-32B"),
        (("vllm", "serve", "$(MODEL_PATH)"), "MODEL_PATH"),
        (("vllm", "serve", "--port", "8000"), "name no model"),
        (("./start.sh",), "cannot be read"),
    ],
)
def test_a_model_that_is_not_known_says_what_to_state(command, part):
    message = only(
        "ModelUnknown", resolve(spec(), workload(container(command=command)), NODES).shape
    )
    assert part in message
    assert "spec.model" in message


# ---- device


def test_the_nodes_that_admit_the_pod_say_the_device():
    nodes = (node("a", "NVIDIA-L4", labels={"pool": "l4"}), node("b", "NVIDIA-L40S"))
    needs = PodNeeds(node_selector={"pool": "l4"})
    found = resolve(spec(), workload(needs=needs), nodes)
    assert found.device == find_device("L4")
    assert found.notes == ()


def test_of_several_kinds_the_one_with_the_least_memory_counts_and_is_noted():
    nodes = (node("a", "NVIDIA-H200"), node("b", "NVIDIA-L4"), node("c", "NVIDIA-L40S"))
    found = resolve(spec(), workload(), nodes)
    assert found.device == find_device("L4")
    assert any(
        "NVIDIA-H200" in note and "targets[0].devices.product" in note for note in found.notes
    )


def test_a_node_that_refuses_the_pod_says_nothing():
    tainted = node("b", "NVIDIA-L4", taints=(Taint("team", "x", "NoSchedule"),))
    nodes = (node("a", "NVIDIA-H200"), tainted)
    assert resolve(spec(), workload(), nodes).device == find_device("H200")
    tolerant = PodNeeds(tolerations=(Toleration(key="team", operator="Exists"),))
    assert resolve(spec(), workload(needs=tolerant), nodes).device == find_device("L4")


def test_a_draining_node_still_says_what_its_device_is():
    drained = (node("a", draining=True, ready=False),)
    assert resolve(spec(), workload(), drained).device == find_device("L4")


def test_a_pool_without_nodes_has_the_device_of_its_node_selector():
    needs = PodNeeds(node_selector={"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
    assert resolve(spec(), workload(needs=needs), ()).device == find_device("H100")
    no_access = Unknown("NoNodeAccess", "nodes may not be listed")
    assert resolve(spec(), workload(needs=needs), no_access).device == find_device("H100")


def test_of_the_devices_that_an_affinity_allows_the_smallest_counts():
    key = "node.kubernetes.io/instance-type"
    terms = ((Requirement(key, "In", ("p5en.48xlarge", "p5.48xlarge", "unheard-of")),),)
    found = resolve(spec(), workload(needs=PodNeeds(affinity_terms=terms)), ())
    assert isinstance(found.device, Device)
    assert found.device.product == "NVIDIA-H100-80GB-HBM3"
    assert any("NVIDIA-H200" in note for note in found.notes)


def test_without_access_to_nodes_the_spec_has_to_say():
    no_access = Unknown("NoNodeAccess", "nodes may not be listed")
    message = only("NoNodeAccess", resolve(spec(), workload(), no_access).device)
    assert "targets[0].devices.product" in message
    stated = spec(devices=DeviceOverrides(product="L4"))
    assert resolve(stated, workload(), no_access).device == find_device("L4")


@pytest.mark.parametrize(
    ("nodes", "reason", "part"),
    [
        ((), "NoDevices", GPU),
        ((NodeState("cpu", {}, {"cpu": 1}, {}),), "NoDevices", GPU),
        ((NodeState("bare", {}, {GPU: 1}, {}),), "DeviceUnknown", "node bare"),
        ((node("shared", "NVIDIA-L4-SHARED"),), "SharedDevice", "node shared"),
    ],
)
def test_nodes_that_do_not_tell_leave_the_device_unknown_with_the_mend(nodes, reason, part):
    message = only(reason, resolve(spec(), workload(), nodes).device)
    assert part in message
    assert "targets[0].devices.product" in message


def test_a_pod_that_requests_no_device_says_so():
    found = resolve(spec(), workload(container(gpus=0)), NODES)
    assert "targets[0].devices.resourceName" in only("NoDevices", found.device)
    assert (found.device_resource, found.devices_per_pod) == ("", 0)


def test_stated_memory_wins_and_the_speed_stays():
    stated = spec(devices=DeviceOverrides(memory_bytes=20 * GIB))
    table = find_device("L4")
    assert isinstance(table, Device)
    found = resolve(stated, workload(), NODES).device
    assert found == replace(table, memory_bytes=20 * GIB, evidence="targets[].devices.memory")


@pytest.mark.parametrize("product", [None, "Home-made-GPU", "A100"])
def test_stated_memory_is_enough_for_a_device_that_nothing_names(product):
    stated = spec(devices=DeviceOverrides(product=product, memory_bytes=20 * GIB))
    device = resolve(stated, workload(), ()).device
    assert isinstance(device, Device)
    assert device.memory_bytes == 20 * GIB


def test_an_ambiguous_product_lists_the_candidates():
    stated = spec(devices=DeviceOverrides(product="A100"))
    message = only("DeviceUnknown", resolve(stated, workload(), NODES).device)
    assert "NVIDIA-A100-SXM4-80GB" in message


def test_a_stated_count_wins_and_the_contradiction_is_shown():
    stated = spec(devices=DeviceOverrides(count=2))
    found = resolve(stated, workload(container("-tp", "2", gpus=4)), NODES)
    assert found.devices_per_pod == 2
    assert found.contradictions == (
        (
            "targets[0].devices.count is 2, the pod template requests 4 nvidia.com/gpu: the override "
            "is used"
        ),
    )


@pytest.mark.parametrize(
    ("flags", "gpus", "part"),
    [
        (("-tp", "8", "-pp", "2"), 8, "uses 16 devices"),
        (("-tp", "1"), 2, "uses 1 device ("),
        (("-dp", "2"), 1, "dataParallel 2"),
    ],
)  # fmt: skip
def test_devices_that_the_engine_does_not_match_are_a_contradiction(flags, gpus, part):
    found = resolve(spec(), workload(container(*flags, gpus=gpus)), NODES)
    assert len(found.contradictions) == 1
    assert part in found.contradictions[0]
    assert f"{gpus} nvidia.com/gpu" in found.contradictions[0]


def test_devices_that_another_container_requests_are_not_the_engines():
    other = container(name="embedder", command=("serve-embeddings",), gpus=1)
    found = resolve(spec(), workload(container("-tp", "2", gpus=2), other), NODES)
    assert found.devices_per_pod == 3
    assert found.contradictions == ()


WORDS = st.lists(st.text(max_size=12) | st.sampled_from(["vllm", "serve", "-tp", "2"]), max_size=6)


@given(WORDS, st.dictionaries(st.text(max_size=10), st.text(max_size=20), max_size=3))
def test_any_workload_is_answered(words, labels):
    nodes = (NodeState("n", labels, {GPU: 1}, {}),)
    found = resolve(spec(), workload(container(command=tuple(words))), nodes)
    for value in (found.shape, found.engine, found.device):
        assert not isinstance(value, Unknown) or (value.reason and value.message)
