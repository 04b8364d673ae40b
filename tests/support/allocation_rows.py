"""What vLLM 0.32.0 itself allocates for configurations, row by row, and the shapes of these."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape

DATA = Path(__file__).parents[1] / "data"
FILES = ("vllm_allocation.jsonl", "vllm_allocation_more.jsonl")

Row = dict[str, Any]


def rows() -> list[Row]:
    """Every row; `file` says where it is from."""
    return [
        {**json.loads(line), "file": name}
        for name in FILES
        for line in (DATA / name).read_text().splitlines()
    ]


def identity(row: Row) -> str:
    """A row's name in a test's output."""
    return f"{row['model']}-tp{row['tp']}-{row['kv_cache_dtype']}-sm{row['compute_capability']}"


def folder_of(row: Row) -> Path:
    """Where the row's config.json lies."""
    recalled = DATA / "recalled_configs" / row["model"]
    if row["file"] == FILES[1] and recalled.exists():
        return recalled
    return DATA / "hf_configs" / row["model"]


def shape_of(row: Row) -> ModelShape:
    """The row's model."""
    shape = _read(folder_of(row))
    assert isinstance(shape, ModelShape), shape
    return shape


@cache
def _read(folder: Path) -> Any:
    beside = folder / "hf_quant_config.json"
    return read_shape(
        json.loads((folder / "config.json").read_text()),
        folder.name,
        json.loads(beside.read_text()) if beside.exists() else None,
    )


def engine_of(row: Row) -> EngineConfig:
    """The row's settings."""
    speculation = row.get("speculative_config") or {}
    return EngineConfig(
        version=row["engine_version"],
        tensor_parallel=row["tp"],
        pipeline_parallel=row.get("pipeline_parallel", 1),
        decode_context_parallel=row.get("decode_context_parallel", 1),
        expert_parallel=row.get("extra", {}).get("enable_expert_parallel", False),
        kv_cache_dtype=row["kv_cache_dtype"],
        max_model_len=row["max_model_len"],
        max_num_seqs=row["max_num_seqs"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        block_size=row.get("requested_block_size"),
        prefix_caching=row.get("enable_prefix_caching"),
        hybrid_kv_cache_manager=not row.get("disable_hybrid_kv_cache_manager", False),
        speculative_method=speculation.get("method", ""),
        speculative_model=speculation.get("model", "").replace("--", "/"),
        speculative_tokens=speculation.get("num_speculative_tokens", 0),
    )
