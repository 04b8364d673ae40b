"""Keys of the mixtures of experts that several architectures share."""

from dataclasses import replace

from kvscale.core.model.architectures.row import MixtureKeys

DEEPSEEK = MixtureKeys(
    "n_routed_experts",
    "moe_intermediate_size",
    shared="n_shared_experts",
    dense_first="first_k_dense_replace",
    step="moe_layer_freq",
    layer_names="mlp_layer_types",
)
QWEN = MixtureKeys(
    "num_experts",
    "moe_intermediate_size",
    step="decoder_sparse_step",
    offset=1,
    dense_list="mlp_only_layers",
)
QWEN_SHARED = replace(QWEN, shared_width="shared_expert_intermediate_size", shared_gate=True)
MIXTRAL = MixtureKeys(
    "num_local_experts", "intermediate_size", module="block_sparse_moe", expert="w1"
)
MINIMAX = replace(MIXTRAL, router_dtype="float32", correction=True)
ERNIE = MixtureKeys(
    "moe_num_experts",
    "moe_intermediate_size",
    chosen="moe_k",
    shared="moe_num_shared_experts",
    dense_first="moe_layer_start_index",
    step="moe_layer_interval",
    offset=1,
    router_dtype="float32",
    correction=True,
)
STEP = MixtureKeys(
    "moe_num_experts",
    "moe_intermediate_size",
    chosen="moe_top_k",
    module="moe",
    shared_width="share_expert_dim",
    dense_first="moe_dense_first",
    indices="moe_layers_enum",
    router_dtype="float32",
    correction=True,
)
EXAONE = MixtureKeys(
    "num_experts",
    "moe_intermediate_size",
    shared="num_shared_experts",
    dense_first="first_k_dense_replace",
    layer_names="mlp_layer_types",
    correction=True,
)
AFMOE = MixtureKeys(
    "num_experts",
    "moe_intermediate_size",
    shared="num_shared_experts",
    dense_first="num_dense_layers",
    router_dtype="float32",
    correction=True,
)
