"""A TensorRT-LLM server's arguments (trtllm-serve) as engine settings.

Names: tensorrt_llm/commands/serve.py, 0.17 to main of 2026. Most of what decides the KV cache may
stand in the file of `--extra_llm_api_options` (`--config` in newer versions), which wins over the
command line and cannot be read from a pod template: what it leaves open is said.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.flag import Flag, FlagTable, Kind
from kvscale.core.engines.flag_reading import read_flags
from kvscale.core.engines.launch import TENSORRT_LLM, Container, Launch, version_of_image
from kvscale.core.engines.options import TensorRtLlmOptions
from kvscale.core.engines.server_arguments import (
    ServerArguments,
    UnreadSetting,
    disaggregated,
    flag_value,
    http_port,
    undecided,
)
from kvscale.core.engines.unread import MARK
from kvscale.core.values import Unknown

FLAGS = (
    Flag("--tp_size", Kind.COUNT, "tensor_parallel", overridable=True),
    Flag("--pp_size", Kind.COUNT, "pipeline_parallel", overridable=True),
    Flag(
        "--kv_cache_free_gpu_memory_fraction",
        Kind.FRACTION,
        "memory_utilization_milli",
        overridable=True,
    ),
    Flag("--kv_cache_dtype", Kind.TEXT, "kv_cache_dtype", overridable=True),
    Flag("--max_seq_len", Kind.COUNT, "max_model_len", overridable=True),
    Flag("--max_batch_size", Kind.COUNT, "max_num_seqs", overridable=True),
    Flag("--max_num_tokens", Kind.COUNT, "max_num_batched_tokens", overridable=True),
)
_FILES = ("--extra_llm_api_options", "--config")
_OTHERS = (
    *(Flag(name, Kind.TEXT) for name in _FILES),
    Flag("--backend", Kind.TEXT),
    Flag("--port", Kind.COUNT),
    Flag("--server_role", Kind.TEXT),
    Flag("--served_model_name", Kind.TEXT),
    Flag("--enable_attention_dp", Kind.SWITCH),
)
_SWITCHES = """
    --trust_remote_code --enable_chunked_prefill --fail_fast_on_attention_window_too_large
    --grpc --disable_mm_encoder
"""
_NEIGHBOURS = """
    --host --tokenizer --custom_tokenizer --ep_size --cluster_size --gpus_per_node --log_level
    --num_postprocess_workers --reasoning_parser --tool_parser --metadata_server_config_file
    --max_beam_width --revision --chat_template --otlp_traces_endpoint --cp_size --media_io_kwargs
"""
_READ = (*FLAGS, *_OTHERS)
_SWITCH_NAMES = frozenset({*_SWITCHES.split(), "--enable_attention_dp"})

TENSORRT_FLAGS = FlagTable(
    by_name=MappingProxyType({flag.name: flag for flag in _READ}),
    known=frozenset({*(flag.name for flag in _READ), *_SWITCH_NAMES, *_NEIGHBOURS.split()}),
    short=MappingProxyType({
        "--tensor_parallel_size": "--tp_size",
        "--pipeline_parallel_size": "--pp_size",
        "--free_gpu_memory_fraction": "--kv_cache_free_gpu_memory_fraction",
    }),
    switches=_SWITCH_NAMES,
    separator="_",
)  # fmt: skip


def read_tensorrt_llm(container: Container, launch: Launch) -> ServerArguments | Unknown:
    """The settings of a trtllm-serve; Unknown(DisaggregatedServer) for one side of P/D."""
    arguments = launch.arguments
    commands = {"serve", "disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve"}
    if arguments and arguments[0] in commands:
        if arguments[0] != "serve":
            return disaggregated(f"container {container.name}", f"trtllm-serve {arguments[0]}")
        arguments = arguments[1:]
    stated = read_flags(arguments, TENSORRT_FLAGS)
    role = stated.values.get("--server_role", "").lower()
    if role in {"context", "generation"}:
        return disaggregated(f"container {container.name}", f"--server_role is {role}")
    settings: dict[str, Any] = {}
    unread: list[UnreadSetting] = []
    if stated.positional and MARK not in stated.positional[0]:
        settings["model"] = stated.positional[0]
    for flag in FLAGS:
        text = stated.values.get(flag.name)
        if text is None:
            continue
        value = flag_value(flag, text)
        if isinstance(value, UnreadSetting):
            unread.append(value)
        else:
            settings[flag.field] = value
    unread += undecided(stated, FLAGS, {*settings, *(one.field for one in unread)}, _FILES)
    notes = list(stated.problems)
    notes += [
        f"{name} names a file that cannot be read here; what it states wins over the command line"
        for name in _FILES
        if stated.values.get(name)
    ]
    backend = stated.values.get("--backend", "pytorch")
    engine = EngineConfig(
        kind=EngineKind.TENSORRT_LLM,
        version=version_of_image(container.image, TENSORRT_LLM),
        **settings,
    )
    attention_dp = stated.values.get("--enable_attention_dp") == "true"
    if attention_dp:
        # Each rank attends to sequences of its own, with a pool of its own.
        ranks = engine.tensor_parallel
        engine = replace(engine, tensor_parallel=1, data_parallel=ranks)
    engine = replace(
        engine,
        options=TensorRtLlmOptions(
            attention_dp=attention_dp, backend="pytorch" if MARK in backend else backend
        ),
    )
    served = stated.values.get("--served_model_name", "")
    return ServerArguments(
        container=container.name,
        engine=engine,
        stated=frozenset(settings),
        served_model_name="" if MARK in served else served,
        port=http_port(stated.values.get("--port", "")),
        unread=tuple(unread),
        notes=tuple(notes),
    )
