"""Boot logs that are public: which of them a model, a device and settings can be read from.

`tests/data/boot_logs.csv`, `boot_logs_extra.csv` and `boot_logs_benchmarks.csv` have the same columns; settings that have no
column stand in `notes` as `name=value`. GiB are per device.
"""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape

GIB = 1 << 30
DATA = Path(__file__).parents[1] / "data"
FILES = ("boot_logs.csv", "boot_logs_extra.csv", "boot_logs_benchmarks.csv")
CONFIGS = DATA / "hf_configs"


def _dense(architecture: str, *numbers: int, **more: Any) -> dict[str, Any]:
    keys = (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
        "intermediate_size", "vocab_size", "max_position_embeddings",
    )  # fmt: skip
    named = dict(zip(keys, numbers, strict=True))
    return {"architectures": [architecture], "torch_dtype": "bfloat16", **named, **more}


_QWEN3_SMALL = _dense(
    "Qwen3ForCausalLM", 28, 1024, 16, 8, 3072, 151936, 40960, head_dim=128,
    tie_word_embeddings=True,
)  # fmt: skip
_LLAMA_70B = (80, 8192, 64, 8, 28672, 128256, 131072)
_FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
_BLOCK_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_EXPERTS = {"head_dim": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": []}  # fmt: skip


def _like(folder: str, **changes: Any) -> dict[str, Any]:
    """A public config with other values; None takes a key away."""
    config = json.loads((CONFIGS / folder / "config.json").read_text())
    return {key: value for key, value in {**config, **changes}.items() if value is not None}


def _channel_fp8(*ignored: str) -> dict[str, Any]:
    """FP8-dynamic of llm-compressor: a scale per channel, and what stays as it was."""
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    return {
        "quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head", *ignored],
    }  # fmt: skip


_GATES = "re:.*mlp.gate$"

OWN: dict[str, dict[str, Any]] = {
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": _dense(
        "LlamaForCausalLM", *_LLAMA_70B, quantization_config=_FP8
    ),
    "Qwen/Qwen3-0.6B": _QWEN3_SMALL,
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": {
        "architectures": ["Mistral3ForConditionalGeneration"], "torch_dtype": "bfloat16",
        "spatial_merge_size": 2, "vision_feature_layer": -1,
        "text_config": _dense(
            "MistralForCausalLM", 40, 5120, 32, 8, 32768, 131072, 131072, head_dim=128
        ),
        "vision_config": {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "patch_size": 14, "image_size": 1540, "num_channels": 3,
            "head_dim": 64,
        },
    },
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": _dense(
        "Qwen2ForCausalLM", 48, 5120, 40, 8, 13824, 152064, 131072
    ),
    "meta-llama/Meta-Llama-3-8B": _dense(
        "LlamaForCausalLM", 32, 4096, 32, 8, 14336, 128256, 8192
    ),
    "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8": _dense(
        "Qwen3MoeForCausalLM", 48, 2048, 32, 4, 6144, 151936, 262144, **_EXPERTS,
        num_experts=128, moe_intermediate_size=768, quantization_config=_BLOCK_FP8,
    ),
    "Qwen/Qwen3-235B-A22B-FP8": _dense(
        "Qwen3MoeForCausalLM", 94, 4096, 64, 4, 12288, 151936, 40960, **_EXPERTS,
        num_experts=128, moe_intermediate_size=1536, quantization_config=_BLOCK_FP8,
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": _dense(
        "Qwen2ForCausalLM", 24, 896, 14, 2, 4864, 151936, 32768, tie_word_embeddings=True
    ),
    "Qwen/Qwen3-235B-A22B-Instruct-2507": _like("Qwen--Qwen3-235B-A22B"),
    "RedHatAI/Qwen3-235B-A22B-FP8-dynamic": _like(
        "Qwen--Qwen3-235B-A22B", quantization_config=_channel_fp8(_GATES)
    ),
    "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8": _like(
        "Qwen--Qwen3-VL-235B-A22B-Instruct",
        quantization_config={**_BLOCK_FP8, "ignored_layers": ["model.visual", "lm_head"]},
    ),
    "RedHatAI/Qwen3-Coder-Next-FP8-dynamic": _like(
        "Qwen--Qwen3-Next-80B-A3B-Thinking",
        quantization_config=_channel_fp8(
            _GATES, "re:.*shared_expert_gate$", "re:.*linear_attn.*"
        ),
    ),
    **{
        f"RedHatAI/{name}-FP8-dynamic": _like(
            folder,
            quantization_config=_channel_fp8(
                _GATES, "re:.*shared_expert_gate$", "re:.*linear_attn.*", "re:.*visual.*",
            ),
        )
        for name, folder in (
            ("Qwen3.5-397B-A17B", "nvidia--Qwen3.5-397B-A17B-NVFP4"),
            ("Qwen3.5-122B-A10B", "nvidia--Qwen3.5-122B-A10B-NVFP4"),
            ("Qwen3.5-35B-A3B", "Qwen--Qwen3.5-35B-A3B"),
        )
    },
    "RedHatAI/Llama-4-Maverick-17B-128E-Instruct-FP8": _like(
        "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
        quantization_config=_channel_fp8(
            "re:.*self_attn", "re:.*router", "re:.*vision_model", "re:.*multi_modal_projector",
        ),
    ),
    "nvidia/Llama-3.3-70B-Instruct-FP8": _dense(
        "LlamaForCausalLM", *_LLAMA_70B, quantization_config=_FP8
    ),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8": _like(
        "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", quantization_config=_FP8
    ),
    "google/gemma-4-31B-it": _like(
        "nvidia--Gemma-4-31B-IT-NVFP4", quantization_config=None
    ),
    **{
        name: {
            "architectures": ["Mistral3ForConditionalGeneration"], "torch_dtype": "bfloat16",
            "spatial_merge_size": 2, "vision_feature_layer": -1,
            "text_config": _dense(
                "MistralForCausalLM", 40, 5120, 32, 8, 16384, 131072, 262144, head_dim=128
            ),
            "vision_config": {
                "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                "num_attention_heads": 16, "patch_size": 14, "image_size": 1540,
                "num_channels": 3, "head_dim": 64,
            },
            **stored,
        }
        for name, stored in (
            ("RedHatAI/Ministral-3-14B-Instruct-2512", {"quantization_config": _FP8}),
            ("mistralai/Ministral-3-14B-Reasoning-2512", {}),
        )
    },
    "TechxGenus/Meta-Llama-3-70B-Instruct-AWQ": _dense(
        "LlamaForCausalLM", 80, 8192, 64, 8, 28672, 128256, 8192,
        quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128,
                             "zero_point": True, "version": "gemm"},
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _dense(
        "Qwen2ForCausalLM", 28, 1536, 12, 2, 8960, 151936, 131072
    ),
    "zai-org/GLM-4-9B-Chat": _dense(
        # ChatGLM's own keys, in the words of Llama: the same sizes, biases of Q, K and V apart
        "LlamaForCausalLM", 40, 4096, 32, 2, 13696, 151552, 131072
    ),
}  # fmt: skip

DEVICES = {
    "H100 NVL": "NVIDIA-H100-NVL", "RTX 5090": "NVIDIA-GeForce-RTX-5090",
    "H100": "NVIDIA-H100-80GB-HBM3", "79.22 GiB GPU": "NVIDIA-H100-80GB-HBM3",
    "RTX 3090": "NVIDIA-GeForce-RTX-3090", "RTX 4090": "NVIDIA-GeForce-RTX-4090",
    "A100-SXM4-40GB": "NVIDIA-A100-SXM4-40GB", "A100": "NVIDIA-A100-SXM4-80GB", "L40S": "NVIDIA-L40S", "H200": "NVIDIA-H200",
    "B200": "NVIDIA-B200", "L20": "NVIDIA-L20", "MI300X": "AMD-Instinct-MI300X", "L4": "NVIDIA-L4",
    "RTX PRO 6000": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "GB10": "",
    "15.55 GiB GPU": "", "B300": "NVIDIA-B300-SXM6-AC",
}  # fmt: skip
"""Names in the rows that say which device it is, by how they begin."""

_CAPABILITY = {"GB10": "12.1", "15.55 GiB GPU": "8.9"}
_MEMORY = {"GB10": 121.6, "15.55 GiB GPU": 15.55}


@dataclass(frozen=True, slots=True)
class Boot:
    """One row.

    Attributes:
        row: as it stands in the file.
        notes: the pairs of its notes.
    """

    row: dict[str, str]
    notes: dict[str, str]

    @property
    def name(self) -> str:
        """Its id."""
        return self.row["id"]

    def number(self, column: str) -> float | None:
        """A column as a number; None if it is empty."""
        return float(self.row[column]) if self.row[column] else None

    def note(self, name: str) -> int | None:
        """A setting of the notes; None if it is not there."""
        return int(self.notes[name]) if name in self.notes else None

    @property
    def shape(self) -> ModelShape | None:
        """Its model, where its config is public and read."""
        model = self.row["model"].split(" (")[0].replace("-it-qat-q4_0-unquantized", "")
        if model in OWN:
            found = read_shape(OWN[model], model)
        elif isinstance(known := preset(model), ModelShape):
            found = known
        else:
            return None
        return found if isinstance(found, ModelShape) else None

    @property
    def device(self) -> Device | None:
        """Its device, where the row says which."""
        gpu = self.row["gpu"]
        key = next((key for key in DEVICES if gpu.startswith(key)), None)
        if key is None:
            return None
        stated = re.search(r"\((\d+\.\d+) GiB\)", gpu) or re.match(r"(\d+\.\d+) GiB", gpu)
        gib = float(stated[1]) if stated else _MEMORY.get(key)
        if not DEVICES[key]:
            assert gib is not None
            return Device(key, round(gib * GIB), compute_capability=_CAPABILITY[key])
        device = find_device(DEVICES[key])
        assert isinstance(device, Device), device
        memory = device.memory_bytes if gib is None else round(gib * GIB)
        return Device(
            device.product, memory, compute_capability=device.compute_capability
        )  # fmt: skip

    @property
    def engine(self) -> EngineConfig:
        """Its settings, as far as they are stated."""
        row = self.row
        fraction, length = self.number("mem_fraction"), self.number("max_model_len")
        version = row["engine_version"].split(" ")[0] or None
        return EngineConfig(
            version=version,
            tensor_parallel=int(row["tp"] or 1),
            expert_parallel="expert parallel" in row["notes"],
            prefix_caching=False if self.notes.get("prefix_caching") == "0" else None,
            memory_utilization_milli=round(fraction * 1000) if fraction else None,
            kv_cache_dtype="auto" if row["kv_dtype"] in {"", "bf16"} else row["kv_dtype"],
            max_model_len=int(length) if length else None,
            max_num_seqs=self.note("max_num_seqs"),
            max_num_batched_tokens=self.note("max_num_batched_tokens"),
            block_size=int(row["block_size"]) if row["block_size"] else None,
            enforce_eager="enforce_eager" in self.row["notes"]
            and "enforce_eager=False" not in self.row["notes"],
        )


def boots() -> list[Boot]:
    """Every row of vLLM."""
    found = []
    for file in FILES:
        with (DATA / file).open(newline="") as lines:
            for row in csv.DictReader(lines):
                if row["engine"] == "vllm":
                    pairs = re.findall(r"(\w+)=(\d[\d.]*)(?![\w.])", row["notes"])
                    found.append(Boot(row, dict(pairs)))
    return found


def why_no_memory(boot: Boot) -> str:
    """Why the memory of a row cannot be estimated without a calibration; "" if it can."""
    if boot.number("mem_fraction") is None:
        return "no memory fraction"
    if boot.number("reported_kv_gib") is None:
        return "no KV memory"
    if "draft" in boot.row["notes"]:
        return "a draft model's weights are in it"
    if boot.device is None:
        return "the device is not stated, or not in the table"
    if boot.shape is None:
        return "no public config"
    return UNFIT.get(boot.name, "")


UNFIT = {
    "be121": "a build of another vendor between releases, with a model of a later one",
}
"""Rows that are of no release."""


def why_no_tokens(boot: Boot) -> str:
    """Why bytes per token of a row cannot be checked; "" if they can."""
    if boot.number("reported_kv_gib") is None or boot.number("reported_kv_tokens") is None:
        return "no KV memory or no tokens"
    if boot.shape is None:
        return "no public config"
    if boot.name in UNFIT:
        return UNFIT[boot.name]
    if "CHECK" in boot.row["notes"]:
        return "marked CHECK by its collector"
    return CONTRADICTIONS.get(boot.name, "")


CONTRADICTIONS = {
    "be030": "version and batch are not stated, on which the windows' share depends",
    "be111": "2.3 % fewer than its GiB hold, which other rows of 0.20.0 meet to 0.01 %",
    "be117": "DeepSeek-V4 was laid out otherwise by 0.20",
    "be118": "DeepSeek-V4 was laid out otherwise by 0.20",
    "kv101": "8.69 GiB are of one worker, the tokens are of the other",
    "ex015": "a draft model's layers share the pool",
}
"""Rows whose tokens are not those of their KV memory."""


def share(bytes_or_gib: float, device: Device) -> float:
    """GiB as a share of the device's memory."""
    return bytes_or_gib * GIB / device.memory_bytes
