"""How the arguments of a vLLM server are spelled, and what cannot be read of them."""

import pytest

from kvscale.core.engines.arguments import Container, ServerArguments, choose_server, read_arguments
from kvscale.core.engines.config import EngineConfig
from kvscale.core.values import Unknown

IMAGE = "vllm/vllm-openai:v0.11.0"


def serve(*flags: str, env: dict[str, str | None] | None = None) -> ServerArguments:
    read = read_arguments(Container("vllm", IMAGE, ("vllm", "serve", "m"), flags, env or {}))
    assert isinstance(read, ServerArguments), read
    return read


def shell(script: str, env: dict[str, str | None] | None = None) -> ServerArguments | Unknown:
    return read_arguments(Container("vllm", IMAGE, ("/bin/bash", "-c"), (script,), env or {}))


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (("--tensor-parallel-size", "4"), "tensor_parallel", 4),
        (("--tensor-parallel-size=4",), "tensor_parallel", 4),
        (("--tensor_parallel_size", "4"), "tensor_parallel", 4),
        (("-tp", "4"), "tensor_parallel", 4),
        (("-tp=4",), "tensor_parallel", 4),
        (("-pp", "2"), "pipeline_parallel", 2),
        (("-dp", "2"), "data_parallel", 2),
        (("-q", "fp8"), "quantization", "fp8"),
        (("--max-num-seq", "64"), "max_num_seqs", 64),
        (("--max-num-batched-token=4096",), "max_num_batched_tokens", 4096),
        (("--gpu-memory-util=0.9",), "memory_utilization_milli", 900),
        (("--gpu_memory_utilization", "0.925"), "memory_utilization_milli", 925),
        (("--gpu-memory-utilization", ".5"), "memory_utilization_milli", 500),
        (("--gpu-memory-utilization", "1"), "memory_utilization_milli", 1000),
        (("--gpu-memory-utilization", "0.9239"), "memory_utilization_milli", 923),
        (("--max-model-len", "32k"), "max_model_len", 32000),
        (("--max-model-len", "32K"), "max_model_len", 32768),
        (("--max-model-len", "25.6k"), "max_model_len", 25600),
        (("--max-model-len=1M",), "max_model_len", 1048576),
        (("--kv-cache-memory-bytes", "8G"), "kv_cache_memory_bytes", 8 * 2**30),
        (("--kv-cache-dtype", "fp8_e5m2"), "kv_cache_dtype", "fp8_e5m2"),
        (("--num-gpu-blocks-override", "512"), "num_gpu_blocks_override", 512),
        (("--enforce-eager",), "enforce_eager", True),
        (("--no-enforce-eager",), "enforce_eager", False),
        (("--enable-prefix-caching",), "prefix_caching", True),
        (("--no-enable-prefix-caching",), "prefix_caching", False),
        (("--enable-prefix-caching=false",), "prefix_caching", False),
        (("--tensor-parallel-size", "2", "-tp", "8"), "tensor_parallel", 8),
        (("--tensor-parallel-size", "8", "--tensor_parallel_size=2"), "tensor_parallel", 2),
        (("--enable-chunked-prefill", "False", "--block-size", "32"), "block_size", 32),
        (("--middleware", "a.b", "c.d", "--block-size", "32"), "block_size", 32),
        (("--hf-overrides", '{"a": "--block-size 8"}', "--block-size=32"), "block_size", 32),
    ],
)
def test_every_spelling_of_a_flag_is_read(flags, field, value):
    read = serve(*flags)
    assert getattr(read.engine, field) == value
    assert field in read.stated
    assert read.unread == ()


def test_a_setting_that_is_not_stated_is_none_and_not_a_default():
    read = serve()
    assert read.engine == EngineConfig(version="0.11.0", model="m")
    assert read.stated == {"model"}
    assert read.served_model_name == ""
    assert read.port is None


@pytest.mark.parametrize("length", ["-1", "auto"])
@pytest.mark.parametrize("joined", [True, False])
def test_a_length_that_the_engine_fits_is_minus_one(length, joined):
    read = serve(*([f"--max-model-len={length}"] if joined else ["--max-model-len", length]))
    assert read.engine.max_model_len == -1
    assert read.unread == ()


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (("--tensor-parallel-size", "many"), "tensorParallel"),
        (("--tensor-parallel-size", "0"), "tensorParallel"),
        (("--tensor-parallel-size", "-2"), "tensorParallel"),
        (("--max-model-len", "1.5K"), "maxModelLen"),
        (("--max-model-len", "٣٢"), "maxModelLen"),
        (("--gpu-memory-utilization", "90"), "memoryUtilizationMilli"),
        (("--gpu-memory-utilization", "1.5"), "memoryUtilizationMilli"),
        (("--gpu-memory-utilization", "0"), "memoryUtilizationMilli"),
        (("--max-num-seqs", "$(SEQS)"), "maxNumSeqs"),
        (("--max-num-seqs", "$(SECRET)"), "maxNumSeqs"),
    ],
)
def test_a_value_that_cannot_be_read_names_the_flag_and_the_field_that_mends_it(flags, field):
    read = serve(*flags, env={"SECRET": None})
    assert [one.flag for one in read.unread] == [flags[0]]
    assert flags[0] in read.unread[0].message
    assert f"targets[].engine.{field}" in read.unread[0].message
    assert read.stated == {"model"}


def test_kubernetes_expands_its_own_references_and_no_others():
    env = {"TP": "4", "NAME": "llama-$(TP)"}
    read = serve("-tp", "$(TP)", "--served-model-name", "$(NAME)", "--dtype", "$$(TP)", env=env)
    assert read.engine.tensor_parallel == 4
    assert read.served_model_name == "llama-4"
    assert read.engine.dtype == "$(TP)"


def test_a_shell_reference_without_a_shell_is_no_value():
    assert [one.field for one in serve("-tp", "$TP", env={"TP": "4"}).unread] == ["tensor_parallel"]


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve org/m --max-model-len 4096 -tp 2",
        "exec vllm serve org/m \\\n  --max-model-len 4096 \\\n  -tp 2\n",
        "ulimit -l unlimited && vllm serve 'org/m' --max-model-len \"4096\" -tp 2",
        (
            "set -e; cd /w; python3 -m vllm.entrypoints.openai.api_server --model org/m "
            "--max-model-len=4096 -tp=2 2>&1 | tee /log"
        ),
        "vllm serve $MODEL --max-model-len ${LEN} -tp ${TP:-2}",
        "vllm serve ${MODEL} $FLAGS -tp 2",
        "export T=2; vllm serve org/m --max-model-len 4096 --tensor-parallel-size ${T}",
        'ARGS=(--max-model-len 4096)\nARGS+=(-tp 2)\nvllm serve org/m "${ARGS[@]}"',
        "# vllm serve other\nvllm serve org/m --max-model-len 4096 -tp 2 # -tp 8\n",
        "bash /scripts/multi-node.sh leader; vllm serve org/m --max-model-len 4096 -tp 2",
        'eval "vllm serve org/m ${FLAGS} -tp 2"',
        "nginx & sleep 1; exec vllm serve org/m --max-model-len 4096 -tp 2 &",
        "echo vllm serve wrong; vllm serve org/m --max-model-len 4096 -tp 2",
        'if [ -n "$X" ]; then vllm serve org/m --max-model-len 4096 -tp 2; fi',
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m --max-model-len 4096 -tp 2 < /dev/null",
        "cat > /x <<EOF\nvllm serve wrong -tp 8\nEOF\nvllm serve org/m --max-model-len 4096 -tp 2",
        "vllm serve org/m \\\r\n --max-model-len 4096 \\\r\n -tp 2\r\n",
    ],
)
def test_the_server_in_a_shell_script_is_read(script):
    env = {"MODEL": "org/m", "LEN": "4096", "FLAGS": "--max-model-len 4096"}
    read = shell(script, env)
    assert isinstance(read, ServerArguments), read
    assert read.engine == EngineConfig(
        version="0.11.0", model="org/m", max_model_len=4096, tensor_parallel=2
    )
    assert read.unread == ()


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (("sh", "-c", "vllm serve org/m"), ()),
        (("bash", "-euo", "pipefail", "-c"), ("vllm serve org/m",)),
        (("/bin/bash", "-lc"), ("vllm serve org/m",)),
        (("bash", "-c", 'exec "$0" serve "$@"', "vllm", "org/m"), ()),
        (("tini", "--", "bash", "-c", "vllm serve org/m"), ()),
        (("uv", "run", "vllm", "serve", "org/m"), ()),
        (("bash", "-c", "bash -c 'vllm serve org/m'"), ()),
        (("vllm",), ("serve", "org/m")),
        (("/opt/venv/bin/vllm", "serve"), ("org/m",)),
        (("python", "-m", "vllm.entrypoints.cli.main", "serve", "org/m"), ()),
        (("python3", "/app/vllm/entrypoints/openai/api_server.py"), ("--model=org/m",)),
        ((), ("vllm", "serve", "org/m")),
        ((), ("org/m",)),
        ((), ("--model", "org/m")),
        (("vllm", "serve", "--trust-remote-code", "org/m"), ()),
        (("vllm", "serve", "--port", "8000", "org/m"), ()),
    ],
)
def test_the_server_is_found_wherever_it_stands(command, args):
    read = read_arguments(Container("vllm", IMAGE, command, args))
    assert isinstance(read, ServerArguments), read
    assert read.engine.model == "org/m"


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve m $EXTRA",
        'vllm serve m --port 8000 "$EXTRA"',
        "vllm serve m --port 8000 $(cat /flags)",
        "vllm serve m --host 0.0.0.0 `flags`",
        "vllm serve m --config /etc/vllm.yaml",
    ],
)
def test_a_source_of_flags_that_cannot_be_read_leaves_the_decisive_settings_unread(script):
    read = shell(script, {"EXTRA": None})
    assert isinstance(read, ServerArguments)
    assert {one.field for one in read.unread} == {
        "tensor_parallel",
        "memory_utilization_milli",
        "kv_cache_dtype",
        "max_model_len",
    }


def test_what_the_command_line_states_is_known_beside_a_config_file():
    read = serve("--config", "/c.yaml", "-tp", "2", "--max-model-len", "1k", "--kv-cache-dtype=fp8")
    assert [one.field for one in read.unread] == ["memory_utilization_milli"]
    assert "--config /c.yaml" in read.unread[0].message


def test_a_variable_that_only_a_branch_sets_is_unread():
    read = shell("if test -f /x; then TP=8; else TP=4; fi; vllm serve m -tp $TP")
    assert isinstance(read, ServerArguments)
    assert [one.field for one in read.unread] == ["tensor_parallel"]


def test_two_servers_in_one_script_are_not_chosen_between():
    read = shell("if test -f /x; then vllm serve a; else vllm serve b; fi")
    assert isinstance(read, Unknown)
    assert read.reason == "EngineUnknown"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("./prefill.sh",), "./prefill.sh"),
        (("bash", "/start.sh"), "/start.sh"),
        (("bash", "-c", "cd /w && ./run.sh"), "./run.sh"),
        (("python", "serve.py"), "python serve.py"),
    ],
)
def test_a_script_that_cannot_be_read_is_named(command, named):
    read = read_arguments(Container("main", IMAGE, command))
    assert isinstance(read, Unknown)
    assert read.reason == "EngineUnknown"
    assert named.rsplit(" ", 1)[-1] in read.message
    assert "targets[].engine.kind" in read.message


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        (("ollama", "serve"), "Ollama"),
        (("text-generation-launcher", "--model-id", "m"), "Text Generation Inference"),
        (("bash", "-c", "exec tritonserver --model-repository=/m"), "Triton"),
        (("/app/llama-server", "-m", "m.gguf"), "llama.cpp"),
        (("python3", "-m", "dynamo.vllm", "--model", "m"), "Dynamo"),
    ],
)
def test_another_engine_is_named_and_refused(command, engine):
    read = read_arguments(Container("main", "image", command))
    assert isinstance(read, Unknown)
    assert read.reason == "EngineNotSupported"
    assert engine in read.message


@pytest.mark.parametrize(
    "flags",
    [
        ("--kv-transfer-config", '{"kv_connector":"X","kv_role":"kv_producer"}'),
        ('--kv-transfer-config={"kv_role": "kv_consumer"}',),
        ("--kv-transfer-config.kv_role", "kv_producer"),
        ("--kv_transfer_config", "{'kv_role': 'kv_consumer', broken"),
    ],
)
def test_one_side_of_disaggregated_serving_is_refused(flags):
    read = read_arguments(Container("vllm", IMAGE, ("vllm", "serve", "m"), flags))
    assert isinstance(read, Unknown)
    assert read.reason == "DisaggregatedServer"


@pytest.mark.parametrize("config", ['{"kv_role":"kv_both"}', "[]", "not json", '{"kv_role":1}'])
def test_a_transfer_config_without_a_side_is_left_alone(config):
    assert serve("--kv-transfer-config", config).unread == ()


def test_a_sglang_prefill_worker_is_refused_as_disaggregated():
    command = ("python3", "-m", "sglang.launch_server", "--disaggregation-mode=prefill")
    read = read_arguments(Container("main", "image", command))
    assert isinstance(read, Unknown)
    assert read.reason == "DisaggregatedServer"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", "0.11.0"),
        ("registry.local:5000/vllm/vllm-openai:0.32", "0.32"),
        ("vllm/vllm-openai:v0.20.1-cu129", "0.20.1"),
        ("vllm/vllm-openai:v0.9.0.1@sha256:abc", "0.9.0.1"),
        ("vllm/vllm-openai:v0.13.0rc3", "0.13.0"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly-abc", None),
        ("registry.local:5000/vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:abc", None),
        ("lmcache/vllm-openai:2025-05-05-v1", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("opea/vllm-gaudi:1.22.0", None),
        ("ghcr.io/llm-d/llm-d:v0.2.0", None),
    ],
)
def test_the_version_is_what_the_tag_of_a_vllm_image_says(image, version):
    read = read_arguments(Container("vllm", image, ("vllm", "serve", "m")))
    assert isinstance(read, ServerArguments)
    assert read.engine.version == version


def test_ranks_of_data_parallelism_are_counted_within_the_pod():
    assert serve("-dp", "16", "-dpl", "8").engine.data_parallel == 8
    assert serve("-dp", "16", "--data-parallel-rank", "$(RANK)").engine.data_parallel == 1


def test_a_flag_and_its_value_in_one_argument_is_told():
    assert any("'--quantization fp8'" in note for note in serve("--quantization fp8").notes)


def test_a_drafter_is_read_by_the_short_flags():
    engine = serve("--spec-model", "meta-llama/Llama-3.2-1B-Instruct", "--spec-tokens", "4").engine
    assert engine.speculative_method == "draft_model"
    assert engine.speculative_model == "meta-llama/Llama-3.2-1B-Instruct"
    assert engine.speculative_tokens == 4
    assert serve("--spec-method", "ngram", "--spec-tokens", "-3").engine.speculative_tokens == -3


def test_a_drafter_is_read_with_its_method():
    said = '{"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4}'
    engine = serve("--speculative-config", said).engine
    assert engine.speculative_method == "draft_model"
    assert engine.speculative_model == "meta-llama/Llama-3.2-1B-Instruct"
    assert engine.speculative_tokens == 4
    dotted = serve("--speculative-config.model", "x/EAGLE3-head",
                   "--speculative-config.num_speculative_tokens", "3").engine  # fmt: skip
    assert (dotted.speculative_method, dotted.speculative_model) == ("eagle3", "x/EAGLE3-head")
    assert serve("--speculative-config", '{"model": 7}').engine.speculative_model == ""


def test_what_changes_the_capacity_and_is_not_counted_is_told():
    notes = " ".join(
        serve(
            "--speculative-config", "{}", "--enable-lora", "-pcp", "8", env={"VLLM_USE_V1": "0"}
        ).notes
    )
    for part in ("--speculative-config", "--enable-lora", "--prefill-context", "VLLM_USE_V1"):
        assert part in notes
    assert serve("-pcp", "1", "--no-enable-lora", env={"VLLM_USE_V1": "1"}).notes == ()


SIDECAR = Container("proxy", "envoyproxy/envoy:v1.31", ("envoy", "-c", "/e.yaml"))
SERVER = Container("server", IMAGE, ("vllm", "serve", "m"))


def test_the_container_that_runs_an_engine_is_chosen_among_several():
    read = choose_server([SIDECAR, SERVER])
    assert isinstance(read, ServerArguments)
    assert read.container == "server"


def test_the_named_container_is_chosen_even_if_it_runs_no_engine():
    read = choose_server([SIDECAR, SERVER], "proxy")
    assert isinstance(read, Unknown)
    assert read.reason == "EngineUnknown"


def test_a_container_name_that_does_not_exist_is_told_with_those_that_do():
    read = choose_server([SIDECAR, SERVER], "vllm")
    assert isinstance(read, Unknown)
    assert read.reason == "ContainerNotFound"
    assert "proxy, server" in read.message


def test_two_engines_in_one_pod_need_a_name():
    other = Container("second", IMAGE, ("vllm", "serve", "n"))
    read = choose_server([SERVER, other])
    assert isinstance(read, Unknown)
    assert "targets[].containerName" in read.message
