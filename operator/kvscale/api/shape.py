"""`spec.model`: where the model's shape comes from, and a shape written by hand."""

from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field

from kvscale.api.rules import ApiModel, DnsSubdomain, Rule, Tokens
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, StatePart, WeightGroup

HeadDim = Annotated[int, Field(strict=True, ge=1, le=16_384)]
DataKey = Annotated[str, Field(max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
WeightDtype = Literal["bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4"]

WEIGHT_BITS_MILLI: Final[dict[WeightDtype, int]] = {
    "bf16": 16_000,
    "fp16": 16_000,
    "fp8": 8_000,
    "int8": 8_000,
    "int4": 4_156,  # GPTQ and AWQ, groups of 128: an fp16 scale and a 4-bit zero point each
    "nvfp4": 4_500,  # blocks of 16: an fp8 scale each
    "mxfp4": 4_250,  # OCP Microscaling v1.0, blocks of 32: an 8-bit scale each
}
"""Storage of one weight in thousandths of a bit, scales included."""


class ConfigMapSource(ApiModel):
    """A ConfigMap of the pool's namespace that holds the model's config.json."""

    name: DnsSubdomain
    """Name of the ConfigMap."""
    config_key: DataKey | None = None
    """Key of the model's Hugging Face config.json. Absent: config.json."""
    quantization_key: DataKey | None = None
    """Key of its hf_quant_config.json, for checkpoints that keep quantisation apart."""


StateKind = Literal[
    "Mamba1", "Mamba2", "GatedDeltaNet", "KimiDeltaAttention", "LinearAttention",
    "ShortConvolution",
]  # fmt: skip
GroupKind = Literal["FullAttention", "SlidingWindow", "ChunkedLocal", "MLA", StateKind]

_STATES: Final = get_args(StateKind)
_WINDOWED: Final = ("SlidingWindow", "ChunkedLocal")


def _takes(
    group: "LayerGroupModel", needed: tuple[str, ...], allowed: tuple[str, ...] = ()
) -> bool:
    """Whether exactly these fields of a group are set."""
    fields = ("kv_heads", "head_dim", "value_head_dim", "kv_lora_rank", "qk_rope_head_dim",
              "window_tokens", "state_bytes")  # fmt: skip
    given = {name for name in fields if getattr(group, name) is not None}
    return set(needed) <= given <= {*needed, *allowed}


def _one_of(kinds: tuple[str, ...]) -> str:
    return "self.kind in [" + ", ".join(f"'{kind}'" for kind in kinds) + "]"


_NO_HEADS = "!has(self.kvHeads) && !has(self.headDim) && !has(self.valueHeadDim)"
_NO_LATENT = "!has(self.kvLoraRank) && !has(self.qkRopeHeadDim)"


class LayerGroupModel(ApiModel):
    """Layers that keep the past alike."""

    rules: ClassVar = (
        Rule(
            "self.kind != 'FullAttention' || (has(self.kvHeads) && has(self.headDim)"
            f" && {_NO_LATENT} && !has(self.windowTokens) && !has(self.stateBytes))",
            lambda s: (
                s.kind != "FullAttention"
                or _takes(s, ("kv_heads", "head_dim"), ("value_head_dim",))
            ),
            "FullAttention takes kvHeads and headDim (and valueHeadDim where V differs from K),"
            " not kvLoraRank, qkRopeHeadDim, windowTokens and stateBytes: set the first two, drop"
            " the others",
            "kind",
        ),
        Rule(
            f"!({_one_of(_WINDOWED)}) || (has(self.kvHeads) && has(self.headDim)"
            f" && has(self.windowTokens) && {_NO_LATENT} && !has(self.stateBytes))",
            lambda s: (
                s.kind not in _WINDOWED
                or _takes(s, ("kv_heads", "head_dim", "window_tokens"), ("value_head_dim",))
            ),
            "SlidingWindow and ChunkedLocal take kvHeads, headDim and windowTokens (and"
            " valueHeadDim where V differs from K), not kvLoraRank, qkRopeHeadDim and stateBytes:"
            " set the first three, drop the others",
            "kind",
        ),
        Rule(
            "self.kind != 'MLA' || (has(self.kvLoraRank) && has(self.qkRopeHeadDim)"
            f" && {_NO_HEADS} && !has(self.windowTokens) && !has(self.stateBytes))",
            lambda s: s.kind != "MLA" or _takes(s, ("kv_lora_rank", "qk_rope_head_dim")),
            "MLA takes kvLoraRank and qkRopeHeadDim, not kvHeads, headDim, valueHeadDim,"
            " windowTokens and stateBytes: set the first two, drop the others",
            "kind",
        ),
        Rule(
            f"!({_one_of(_STATES)}) || (has(self.stateBytes) && {_NO_HEADS} && {_NO_LATENT}"
            " && !has(self.windowTokens))",
            lambda s: s.kind not in _STATES or _takes(s, ("state_bytes",)),
            "layers with a recurrent state take stateBytes alone: set it, drop the other fields",
            "kind",
        ),
    )

    kind: GroupKind
    """How the layers keep the past: FullAttention (MHA, GQA, MQA), SlidingWindow, ChunkedLocal,
    MLA (one latent per token), or a recurrent state of fixed size (Mamba1, Mamba2, GatedDeltaNet,
    KimiDeltaAttention, LinearAttention, ShortConvolution)."""
    layers: Annotated[int, Field(strict=True, ge=1, le=1024)]
    """Number of layers, e.g. 32."""
    kv_heads: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    """Attention with heads: KV heads of the whole model (num_key_value_heads), e.g. 8."""
    head_dim: HeadDim | None = None
    """Attention with heads: elements per head (head_dim), e.g. 128."""
    value_head_dim: HeadDim | None = None
    """Attention with heads: elements of V per head where it differs from K. Absent: headDim."""
    window_tokens: Tokens | None = None
    """SlidingWindow: tokens of the window (sliding_window); ChunkedLocal: of a chunk
    (attention_chunk_size)."""
    kv_lora_rank: HeadDim | None = None
    """MLA: width of the latent (kv_lora_rank), e.g. 512."""
    qk_rope_head_dim: HeadDim | None = None
    """MLA: width of the rotary key (qk_rope_head_dim), e.g. 64."""
    state_bytes: Annotated[int, Field(strict=True, ge=4, le=1 << 40)] | None = None
    """Recurrent layers: bytes of one layer's state for one sequence, over the whole model."""

    def to_core(self) -> LayerGroup:
        """The group as the capacity model reads it."""
        kind = LayerKind(self.kind)
        if kind is LayerKind.MLA:
            latent = (self.kv_lora_rank or 0) + (self.qk_rope_head_dim or 0)
            return LayerGroup(kind, self.layers, 1, latent, 0)
        if kind.recurrent:
            # Counted in float32, which tensor parallelism divides.
            part = StatePart((self.state_bytes or 0) // 4, 1, dtype="float32")
            return LayerGroup(kind, self.layers, 0, 0, 0, state=(part,))
        keys = self.head_dim or 0
        return LayerGroup(
            kind, self.layers, self.kv_heads or 0, keys, self.value_head_dim or keys,
            window=self.window_tokens,
        )  # fmt: skip


def _heads(shape: "ShapeModel") -> int | None:
    """Query heads: stated, or Hugging Face's default relation; None where it gives no number."""
    if shape.attention_heads is not None:
        return shape.attention_heads
    dims = [group.head_dim for group in shape.layer_groups if group.head_dim is not None]
    if not dims or shape.hidden_size % dims[0]:
        return None
    return shape.hidden_size // dims[0]


class ShapeModel(ApiModel):
    """A model's shape written by hand, with the numbers of its config.json."""

    rules: ClassVar = (
        Rule(
            "has(self.attentionHeads) || self.layerGroups.exists(g, has(g.headDim)"
            " && self.hiddenSize % g.headDim == 0)",
            lambda s: (
                s.attention_heads is not None
                or any(g.head_dim and s.hidden_size % g.head_dim == 0 for g in s.layer_groups)
            ),
            "attentionHeads does not follow from hiddenSize and headDim: set it"
            " (num_attention_heads of the config.json)",
            "attentionHeads",
            "FieldValueRequired",
        ),
    )

    hidden_size: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    """Width of the model (hidden_size), e.g. 4096."""
    vocabulary_size: Annotated[int, Field(strict=True, ge=1, le=100_000_000)]
    """Tokens of the vocabulary (vocab_size), e.g. 128256."""
    parameters_millions: Annotated[int, Field(strict=True, ge=1, le=100_000_000)]
    """Parameters of the whole model in millions, experts included, e.g. 8030."""
    weight_dtype: WeightDtype
    """How most weights are stored: bf16, fp16, fp8, int8, int4, nvfp4 or mxfp4."""
    attention_heads: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    """Query heads (num_attention_heads), e.g. 32. Absent: hiddenSize / headDim."""
    max_position_embeddings: Tokens | None = None
    """Longest sequence that the model was made for, in tokens, e.g. 131072."""
    layer_groups: Annotated[
        tuple[LayerGroupModel, ...],
        Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ]
    """Every layer that keeps KV, grouped by kind."""

    def to_core(self) -> ModelShape:
        """The shape as the capacity model reads it; all weights are one group."""
        dtype = "float16" if self.weight_dtype == "fp16" else "bfloat16"
        weights = WeightGroup(
            "all", self.parameters_millions * 1_000_000, WEIGHT_BITS_MILLI[self.weight_dtype]
        )
        return ModelShape(
            name="spec.model.shape",
            architecture="",
            hidden_size=self.hidden_size,
            vocabulary_size=self.vocabulary_size,
            attention_heads=_heads(self) or 0,
            layer_groups=tuple(group.to_core() for group in self.layer_groups),
            weight_groups=(weights,),
            max_position_embeddings=self.max_position_embeddings,
            kv_cache_dtype=dtype,
            dtype=dtype,
        )


class ModelSourceModel(ApiModel):
    """Where the model's shape comes from."""

    rules: ClassVar = (
        Rule(
            "(has(self.preset) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0)"
            " + (has(self.shape) ? 1 : 0) == 1",
            lambda s: (
                sum(source is not None for source in (s.preset, s.config_map_ref, s.shape)) == 1
            ),
            "set exactly one of preset, configMapRef and shape, or leave model out to take"
            " the model from the server's arguments",
            "preset",
        ),
    )

    preset: (
        Annotated[
            str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)?$")
        ]
        | None
    ) = None
    """A model that kvscale knows, by its Hugging Face name,
    e.g. meta-llama/Llama-3.1-8B-Instruct."""
    config_map_ref: ConfigMapSource | None = None
    """A ConfigMap of the same namespace that holds the model's config.json."""
    shape: ShapeModel | None = None
    """The shape written by hand."""
