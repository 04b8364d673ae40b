"""A model's shape: what the KV arithmetic needs to know of it, and nothing else."""

from dataclasses import dataclass
from enum import StrEnum


class LayerKind(StrEnum):
    """How a layer keeps the past. Kinds without a rule here are refused by name, never guessed."""

    FULL_ATTENTION = "FullAttention"
    MLA = "MLA"


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one kind with equal heads, hence equal pages.

    Attributes:
        kind: the rule that applies.
        layers: how many layers.
        kv_heads: KV heads of the whole model, before tensor parallelism (1 for MLA).
        head_dim_k: elements of K per head and token; for MLA `kv_lora_rank + qk_rope_head_dim`.
        head_dim_v: elements of V per head and token; 0 for MLA, which keeps one latent.
    """

    kind: LayerKind
    layers: int
    kv_heads: int
    head_dim_k: int
    head_dim_v: int


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Parameters that are stored and split alike.

    Attributes:
        name: what they are ("attention", "experts", "embedding", ...), for the trace.
        parameters: count over the whole model.
        bits_per_parameter_milli: storage per parameter in thousandths of a bit, scales included
            (16_000 for bf16; 4_500 for nvfp4 with one fp8 scale per 16).
        split_by_tensor_parallel: False for parts that each rank holds whole.
        touched_share_milli: share of them that one decode step of one token reads, in
            thousandths (experts of a mixture; 1000 otherwise).
        stage: "first", "last" or "all": which pipeline stages hold it.
    """

    name: str
    parameters: int
    bits_per_parameter_milli: int
    split_by_tensor_parallel: bool = True
    touched_share_milli: int = 1000
    stage: str = "all"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as the capacity model sees it.

    Attributes:
        name: as the user or the config names it.
        architecture: `architectures[0]` of the config.json, or "" for a shape by hand.
        hidden_size: model width.
        vocabulary_size: tokens of the vocabulary.
        attention_heads: query heads (tensor parallelism must divide them).
        layer_groups: every layer that keeps KV, grouped.
        weight_groups: every parameter, grouped.
        max_position_embeddings: longest sequence that the model was made for; None if unstated.
        kv_cache_dtype: dtype of the KV cache under `auto` ("bfloat16", "float16", "fp8").
        dtype: activation dtype.
    """

    name: str
    architecture: str
    hidden_size: int
    vocabulary_size: int
    attention_heads: int
    layer_groups: tuple[LayerGroup, ...]
    weight_groups: tuple[WeightGroup, ...]
    max_position_embeddings: int | None = None
    kv_cache_dtype: str = "bfloat16"
    dtype: str = "bfloat16"

    @property
    def layers(self) -> int:
        """Layers that keep KV."""
        return sum(group.layers for group in self.layer_groups)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return sum(group.parameters for group in self.weight_groups)
