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
        stage: which pipeline stages hold it: "all" by their share of the layers, "each" whole,
            "first", "last", or "ends" (first and last, one copy where they are the same stage:
            tied embeddings).
        split_at_most: no more shares than this, the other ranks repeat them (the K and V
            projections have one share per KV head); None: no limit.
        layer_span: first layer that holds them and the one after the last; None: every layer.
        split_by_data_parallel: the ranks of data parallelism share them too (experts).
        buffer: device memory that comes with the model without being a parameter of it (rotary
            tables).
        quantizable: linear layers, which an engine can quantise while it loads them.
    """

    name: str
    parameters: int
    bits_per_parameter_milli: int
    split_by_tensor_parallel: bool = True
    touched_share_milli: int = 1000
    stage: str = "all"
    split_at_most: int | None = None
    layer_span: tuple[int, int] | None = None
    split_by_data_parallel: bool = False
    buffer: bool = False
    quantizable: bool = False


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
        quantization: method of a quantised checkpoint ("fp8", "modelopt", ...); "" if none.
        feed_forward_width: elements that the widest feed-forward layer holds per token before
            tensor parallelism, for the activation peak; 0 if not known.
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
    quantization: str = ""
    feed_forward_width: int = 0

    @property
    def layers(self) -> int:
        """Layers that keep KV."""
        return sum(group.layers for group in self.layer_groups)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return sum(group.parameters for group in self.weight_groups if not group.buffer)
