"""Every architecture of plain layers: real dimensions give the published number of parameters.

The dimensions are those of the models' config.json on Hugging Face, from copies in public code or
recalled; the counts are recalled from the model pages (safetensors metadata). A count that is met to
the digit confirms both, and cannot come from a forgotten norm, bias, gate or head. The counts of the
presets are in ../test_presets.py.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape
from kvscale.core.model.weights.groups import padded_vocabulary

NO_WINDOW = {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 48}
TIED = {"tie_word_embeddings": True}
GLM = {"head_dim": 128, "partial_rotary_factor": 0.5}
LATENT = {
    "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1,
}  # fmt: skip
GLM_MOE = {
    **GLM, "attention_bias": True, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "vocab_size", "max_position_embeddings",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model: its architecture, the numbers of KEYS, its published count, its other keys.

    `left_out` are parameters in the published count that the engine does not load with the model
    (layers that predict further tokens) or that are too few to have a rule (correction biases).
    `published_to` is the precision of a count that is only known rounded.
    """

    architecture: str
    numbers: tuple[int, ...]
    published: int
    more: dict[str, Any] = field(default_factory=dict)
    left_out: int = 0
    published_to: int = 1

    @property
    def config(self) -> dict[str, Any]:
        named = dict(zip(KEYS, self.numbers, strict=True))
        return {
            "architectures": [self.architecture],
            "torch_dtype": "bfloat16",
            **named,
        } | self.more


def further_tokens(hidden: int, experts: int, width: int, *, qk_norm: bool) -> int:
    """GLM-4.5's layer that predicts the token after the next: a layer with an embedding, a head and
    a projection of its own (vllm model_executor/models/glm4_moe_mtp.py), without correction biases.
    """
    heads, kv_heads, head, vocabulary = 96, 8, 128, 151552
    attention = 2 * (heads + kv_heads) * head * hidden + (heads + 2 * kv_heads) * head
    mixture = (experts + 1) * 3 * hidden * width + experts * (hidden + 1)
    norms = 5 * hidden + (2 * head if qk_norm else 0)
    return attention + mixture + norms + 2 * hidden * hidden + 2 * vocabulary * hidden


CASES = {
    "Yi-34B": Case("LlamaForCausalLM", (60, 7168, 56, 8, 20480, 64000, 4096), 34_388_917_248),
    "Falcon3-10B": Case(
        "LlamaForCausalLM", (40, 3072, 12, 4, 23040, 131072, 32768), 10_305_653_760,
        {"head_dim": 256}),
    "R1-Distill-Qwen-14B": Case(
        "Qwen2ForCausalLM", (48, 5120, 40, 8, 13824, 152064, 131072), 14_770_033_664, NO_WINDOW),
    "Qwen2.5-0.5B": Case(
        "Qwen2ForCausalLM", (24, 896, 14, 2, 4864, 151936, 32768), 494_032_768, TIED),
    "Qwen3-14B": Case(
        "Qwen3ForCausalLM", (40, 5120, 40, 8, 17408, 151936, 40960), 14_768_307_200,
        {"head_dim": 128}),
    "Mistral-Nemo": Case(
        "MistralForCausalLM", (40, 5120, 32, 8, 14336, 131072, 1024000), 12_247_782_400,
        {"head_dim": 128, "sliding_window": None}),
    "Mistral-Small-24B": Case(
        "MistralForCausalLM", (40, 5120, 32, 8, 32768, 131072, 32768), 23_572_403_200,
        {"head_dim": 128}),
    "InternLM2.5-7B": Case(
        "InternLM2ForCausalLM", (32, 4096, 32, 8, 14336, 92544, 262144), 7_737_708_544,
        {"bias": False}),
    "InternLM3-8B": Case(
        "InternLM3ForCausalLM", (48, 4096, 32, 2, 10240, 128512, 32768), 8_804_241_408,
        {"head_dim": 128, "bias": False, "qkv_bias": False}),
    "Granite-3.1-2B": Case(
        "GraniteForCausalLM", (40, 2048, 32, 8, 8192, 49155, 131072), 2_533_531_648, TIED),
    "Granite-3.1-8B": Case(
        "GraniteForCausalLM", (40, 4096, 32, 8, 12800, 49155, 131072), 8_170_848_256, TIED),
    "EXAONE-3.0-7.8B": Case(
        "ExaoneForCausalLM", (32, 4096, 32, 8, 14336, 102400, 4096), 7_818_448_896,
        {"num_layers": 32, "num_hidden_layers": None}),
    "SmolLM3-3B": Case(
        "SmolLM3ForCausalLM", (36, 2048, 16, 4, 11008, 128256, 65536), 3_075_098_624,
        {"layer_types": ["full_attention"] * 36, "use_sliding_window": False}),
    "OLMo-2-13B": Case(
        "Olmo2ForCausalLM", (40, 5120, 40, 40, 13824, 100352, 4096), 13_716_198_400),
    "Gemma-2B": Case(
        "GemmaForCausalLM", (18, 2048, 8, 1, 16384, 256000, 8192), 2_506_172_416,
        {"head_dim": 256}),
    "Gemma-7B": Case(
        "GemmaForCausalLM", (28, 3072, 16, 16, 24576, 256000, 8192), 8_537_680_896,
        {"head_dim": 256}),
    "Command-R": Case(
        "CohereForCausalLM", (40, 8192, 64, 64, 22528, 256000, 8192), 34_980_831_232,
        {"model_max_length": 131072}),
    "Command-R+": Case(
        "CohereForCausalLM", (64, 12288, 96, 8, 33792, 256000, 131072), 103_810_674_688,
        {"use_qk_norm": True}),
    "Nemotron-Mini-4B": Case(
        "NemotronForCausalLM", (32, 3072, 24, 8, 9216, 256000, 4096), 4_190_000_000,
        {"head_dim": 128, "attention_bias": False, "mlp_bias": False}, published_to=10_000_000),
    "GLM-4-9B-chat-hf": Case(
        "GlmForCausalLM", (40, 4096, 32, 2, 13696, 151552, 131072), 9_399_951_360,
        {**GLM, "attention_bias": True}),
    "GLM-4-9B-0414": Case(
        "Glm4ForCausalLM", (40, 4096, 32, 2, 13696, 151552, 32768), 9_400_279_040,
        {**GLM, "attention_bias": True}),
    "GLM-4.5-Air": Case(
        "Glm4MoeForCausalLM", (46, 4096, 96, 8, 10944, 151552, 131072), 110_468_824_832,
        {**GLM_MOE, "n_routed_experts": 128, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1, "use_qk_norm": False},
        left_out=45 * 128 + further_tokens(4096, 128, 1408, qk_norm=False)),
    "GLM-4.5": Case(
        "Glm4MoeForCausalLM", (92, 5120, 96, 8, 12288, 151552, 131072), 358_337_791_296,
        {**GLM_MOE, "n_routed_experts": 160, "moe_intermediate_size": 1536,
         "first_k_dense_replace": 3, "use_qk_norm": True},
        left_out=89 * 160 + further_tokens(5120, 160, 1536, qk_norm=True)),
    "Qwen1.5-MoE-A2.7B": Case(
        "Qwen2MoeForCausalLM", (24, 2048, 16, 16, 5632, 151936, 8192), 14_315_784_192,
        {**NO_WINDOW, "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
         "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}),
    "DeepSeek-V2-Lite": Case(
        "DeepseekV2ForCausalLM", (27, 2048, 16, 16, 10944, 102400, 163840), 15_706_484_224,
        LATENT),
}  # fmt: skip


def shape_of(config: dict[str, Any]) -> ModelShape:
    shape = read_shape(config, "m")
    assert isinstance(shape, ModelShape), shape
    return shape


@pytest.mark.parametrize("name", CASES)
def test_the_parameter_count_is_the_published_one(name: str) -> None:
    case = CASES[name]
    shape = shape_of(case.config)
    matrices = sum(group.name in {"embedding", "head"} for group in shape.weight_groups)
    vocabulary = case.config["vocab_size"]
    padding = matrices * (padded_vocabulary(vocabulary) - vocabulary) * shape.hidden_size
    found = shape.parameters - padding + case.left_out
    assert round(found / case.published_to) * case.published_to == case.published


@pytest.mark.parametrize("name", sorted(set(CASES) - {"DeepSeek-V2-Lite"}))
def test_the_cache_is_that_of_its_heads(name: str) -> None:
    config = CASES[name].config
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    layers = config["num_hidden_layers"] or config["num_layers"]
    assert shape_of(config).layer_groups == (
        LayerGroup(
            LayerKind.FULL_ATTENTION, layers, config["num_key_value_heads"], head, head
        ),
    )  # fmt: skip


def test_every_architecture_says_what_it_was_compared_with() -> None:
    for row in ARCHITECTURES.values():
        assert row.evidence.startswith(("allocation: ", "count: ", "module: "))


def test_a_window_that_no_sequence_outgrows_is_a_window_all_the_same() -> None:
    # The engine keeps it by the rule of windows, which takes a block more.
    shape = preset("microsoft/Phi-4-mini-instruct")
    assert isinstance(shape, ModelShape)
    (group,) = shape.layer_groups
    assert (group.kind, group.window) == (LayerKind.SLIDING_WINDOW, 262144)


def test_a_longer_length_than_the_positions_wins_where_it_is_stated() -> None:
    assert shape_of(CASES["Command-R"].config).max_position_embeddings == 131072


def test_a_feed_forward_without_a_gate_holds_less() -> None:
    assert shape_of(CASES["Nemotron-Mini-4B"].config).feed_forward_width == 2 * 9216
    assert shape_of(CASES["Gemma-2B"].config).feed_forward_width == 3 * 16384


@pytest.mark.parametrize("key", ["bias", "attention_bias"])
def test_a_bias_has_two_names(key: str) -> None:
    plain = CASES["InternLM3-8B"].config
    more = shape_of(plain | {key: True, "qkv_bias": True}).parameters - shape_of(plain).parameters
    assert more == 48 * (4096 + 2 * 256 + 4096)


def test_glms_bias_is_not_one_of_the_output() -> None:
    with_bias = CASES["GLM-4-9B-0414"].config
    less = shape_of(with_bias | {"attention_bias": False}).parameters
    assert shape_of(with_bias).parameters - less == 40 * (32 + 2 * 2) * 128
