"""A model's shape: what the KV arithmetic needs to know of it, and nothing else."""

from dataclasses import dataclass, replace
from enum import StrEnum


class LayerKind(StrEnum):
    """How a layer keeps the past. Kinds without a rule here are refused by name, never guessed."""

    FULL_ATTENTION = "FullAttention"
    MLA = "MLA"
    SPARSE_INDEXER = "SparseIndexer"
    COMPRESSED_MLA = "CompressedMLA"
    SLIDING_WINDOW = "SlidingWindow"
    SLIDING_WINDOW_MLA = "SlidingWindowMLA"
    CHUNKED_LOCAL = "ChunkedLocal"
    MAMBA1 = "Mamba1"
    MAMBA2 = "Mamba2"
    GATED_DELTA_NET = "GatedDeltaNet"
    KIMI_DELTA = "KimiDeltaAttention"
    LINEAR_ATTENTION = "LinearAttention"
    SHORT_CONVOLUTION = "ShortConvolution"
    CROSS_ATTENTION = "CrossAttention"

    # A kind is equal to its text, so it hashes as its text. Enum's own hash is a Python function,
    # which the sets below and every table of rules would call, dozens of times for one capacity.
    __hash__ = str.__hash__

    @property
    def recurrent(self) -> bool:
        """Whether the layer keeps one state of fixed size, whatever the length."""
        return self in _RECURRENT

    @property
    def latent(self) -> bool:
        """Whether the layer caches one vector per token, whole on every rank."""
        return self in _LATENT

    @property
    def per_head(self) -> bool:
        """Whether the layer caches K and V of a sequence's own tokens, head by head."""
        return self in _PER_HEAD


_RECURRENT = frozenset({
    LayerKind.MAMBA1, LayerKind.MAMBA2, LayerKind.GATED_DELTA_NET, LayerKind.KIMI_DELTA,
    LayerKind.LINEAR_ATTENTION, LayerKind.SHORT_CONVOLUTION,
})  # fmt: skip
_LATENT = frozenset({
    LayerKind.MLA, LayerKind.SPARSE_INDEXER, LayerKind.COMPRESSED_MLA,
    LayerKind.SLIDING_WINDOW_MLA,
})  # fmt: skip
_PER_HEAD = frozenset({
    LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a recurrent layer's state, or the part of it that is split alike.

    Attributes:
        shares: what tensor parallelism divides (heads, groups, channels); each rank keeps at
            least one.
        elements: per share.
        elements_per_draft: more of them per share for each speculative token.
        dtype: of its elements; "" for the activations' dtype.
        temporal: the state that `--mamba-ssm-cache-dtype` is about; otherwise
            `--mamba-cache-dtype`.
    """

    shares: int
    elements: int
    elements_per_draft: int = 0
    dtype: str = ""
    temporal: bool = False


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one kind with equal heads, hence equal pages.

    Attributes:
        kind: the rule that applies.
        layers: how many layers.
        kv_heads: KV heads of the whole model, before tensor parallelism (1 for MLA; 0 for a
            recurrent state).
        head_dim_k: elements of K per head and token; for MLA `kv_lora_rank + qk_rope_head_dim`.
        head_dim_v: elements of V per head and token; 0 for MLA, which keeps one latent.
        window: tokens of a sliding window or of a local chunk; of cross-attention the encoder's
            longest output; None: every token is kept.
        tokens_per_entry: tokens that one cached vector stands for (compressed attention).
        block_tokens: tokens per block where the layer fixes them itself; None: the engine's.
        storage: format of its cache where it is not the KV cache's ("float32", ...); "" if it is.
        state: tensors of a recurrent state.
        positions: which layers of the model, in order; () for all of them or where unknown.
    """

    kind: LayerKind
    layers: int
    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    window: int | None = None
    tokens_per_entry: int = 1
    block_tokens: int | None = None
    storage: str = ""
    state: tuple[StatePart, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Padding:
    """How the kernels of one generation of devices pad a group of weights.

    Attributes:
        compute_major: major compute capability of the devices.
        parameters: with what pads the width of the model.
        unit_multiple: each rank's share of the split dimension is rounded up to a multiple of it.
    """

    compute_major: int
    parameters: int
    unit_multiple: int


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
        stage: which pipeline stages hold it: "all" by their share of the layers, "each" whole (or
            each with one of `layer_positions`), "first", "last", or "ends" (first and last, one
            copy where they are the same stage: tied embeddings).
        split_at_most: no more shares than this, the other ranks repeat them (the K and V
            projections have one share per KV head); None: no limit.
        layer_span: first layer that holds them and the one after the last; None: every layer.
        layer_positions: the layers that hold them, where these are neither all nor a span; ()
            otherwise.
        split_by_data_parallel: the ranks of data parallelism share them too (experts).
        experts: routed experts of a layer that it is of, which expert parallelism shares out whole;
            0: none.
        buffer: device memory that comes with the model without being a parameter of it (rotary
            tables).
        derived: a copy that the engine makes of other weights after it has loaded them; it takes
            memory beside what the engine calls its weights.
        quantizable: linear layers, which an engine can quantise while it loads them.
        units: size of the dimension that is split; None: not known.
        unit_multiple: each rank's share of that dimension is rounded up to a multiple of this (a
            kernel's tile).
        scale_group: parameters of a row that share scales, where a kernel halves that number until
            it divides a rank's share of the split dimension; 0 where it does not.
        scale_bits_milli: thousandths of a bit of those scales.
        zero_bits_milli: of those, the zero points that the same kernel does without.
        padded: what the engine's kernels make of it, by the generation of the device; the group
            itself is without padding.
    """

    name: str
    parameters: int
    bits_per_parameter_milli: int
    split_by_tensor_parallel: bool = True
    touched_share_milli: int = 1000
    stage: str = "all"
    split_at_most: int | None = None
    layer_span: tuple[int, int] | None = None
    layer_positions: tuple[int, ...] = ()
    split_by_data_parallel: bool = False
    experts: int = 0
    buffer: bool = False
    derived: bool = False
    quantizable: bool = False
    units: int | None = None
    unit_multiple: int = 1
    scale_group: int = 0
    scale_bits_milli: int = 0
    zero_bits_milli: int = 0
    padded: tuple[Padding, ...] = ()

    def on_device(self, compute_major: int | None) -> "WeightGroup":
        """The group as the engine stores it on a device of that major compute capability."""
        for padding in self.padded:
            if padding.compute_major == compute_major:
                return replace(
                    self,
                    parameters=padding.parameters,
                    unit_multiple=padding.unit_multiple,
                    padded=(),
                )
        return self


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as the capacity model sees it.

    Attributes:
        name: as the user or the config names it.
        architecture: `architectures[0]` of the config.json, or "" for a shape by hand.
        hidden_size: model width.
        vocabulary_size: tokens of the vocabulary.
        attention_heads: query heads (tensor parallelism must divide them).
        layer_groups: every layer that keeps KV, grouped, in the order of their first layer.
        weight_groups: every parameter, grouped.
        max_position_embeddings: longest sequence that the model was made for; None if unstated.
        positions_unasked: what vLLM serves when no length is asked for, where that is another.
        positions_by_yarn: longest sequence by the reading of vLLM before 0.30; None if the same.
        kv_cache_dtype: dtype of the KV cache under `auto` ("bfloat16", "float16", "fp8").
        dtype: activation dtype.
        quantization: method of a quantised checkpoint ("fp8", "modelopt", ...); "" if none.
        feed_forward_width: elements that the widest feed-forward layer holds per token before
            tensor parallelism, for the activation peak; 0 if not known.
        depth: layers of the model, those without a cache included; 0: as many as keep KV.
        experts_per_token: routed experts that a token uses; 0 without a mixture.
        draft_layers: multi-token prediction layers that come with the checkpoint and are loaded
            only for speculation.
        notes: what its reading rests on, one sentence each.
    """

    name: str
    architecture: str
    hidden_size: int
    vocabulary_size: int
    attention_heads: int
    layer_groups: tuple[LayerGroup, ...]
    weight_groups: tuple[WeightGroup, ...]
    max_position_embeddings: int | None = None
    positions_unasked: int | None = None
    positions_by_yarn: int | None = None
    kv_cache_dtype: str = "bfloat16"
    dtype: str = "bfloat16"
    quantization: str = ""
    feed_forward_width: int = 0
    depth: int = 0
    experts_per_token: int = 0
    draft_layers: int = 0
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Layers of the model (what pipeline stages share out)."""
        return self.depth or sum(group.layers for group in self.layer_groups)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return sum(group.parameters for group in self.weight_groups if not group.buffer)
