"""Layers of DeepSeek-V4: one compressed latent per token, several streams, experts by hash.

Sources: vllm v0.32.0 models/deepseek_v4/{attention,compressor}.py and nvidia/model.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from kvscale.core.model.architectures.row import Architecture
from kvscale.core.model.bounds import MOST_HEAD_DIM, MOST_HEADS, MOST_WIDTH
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.fields import Fields, Refused
from kvscale.core.model.layers.compressed import FINE, compress_ratios
from kvscale.core.model.parts import Part, Plan, column, plan_of, replicated, row, shared, whole
from kvscale.core.model.weights.feed_forward import Mixture, mixture
from kvscale.core.model.weights.sizes import Dimensions

FP32 = BITS["float32"]
INT32 = 32_000
LEAST_HEADS = 64
"""A rank's sinks are padded to the kernel's 64 or 128 query heads (sparse_mla.py)."""


def deepseek_v4_plan(text: Fields, d: Dimensions, _row: Architecture) -> Plan:
    """Every layer, its compressor and indexer by its compression ratio, and the hash layers.

    Raises:
        Refused: no number of experts, or a value that is missing or cannot be.
    """
    ratios = compress_ratios(text, d.layers)
    hashed = text.integer("num_hash_layers", 0, d.layers, default=0)
    streams = text.integer("hc_mult", 1, 64, default=1)
    experts = d.experts
    if experts is None:
        raise Refused(
            "InvalidConfig",
            f"{text.path}n_routed_experts",
            f"{text.path}n_routed_experts is missing; it must be the number of experts",
        )
    bits = _expert_bits(text)
    corrected = text.text("topk_method") == "noaux_tc"

    def build(kind: tuple[int, bool]) -> Iterable[Part]:
        ratio, by_hash = kind
        yield from _attention(text, d)
        if ratio > 1:
            yield from _compressor(d.hidden, d.head_dim, ratio)
        if ratio == FINE:
            yield from _indexer(text, d, ratio)
        yield from mixture(
            Mixture(
                d.hidden, experts.count, experts.per_token, experts.width,
                module="ffn", shared_width=experts.shared_width,
                correction=corrected and not by_hash, expert_bits=bits,
            )
        )  # fmt: skip
        if by_hash:
            # Which experts each token of the vocabulary goes to.
            yield replace(
                whole("hashTable", d.vocabulary * experts.per_token, INT32), touched=0, buffer=True
            )
        yield whole("norms", 2 * d.hidden)
        mixing = (2 + streams) * streams
        yield whole("streams", 2 * (mixing * streams * d.hidden + mixing + 3), FP32)

    plan = plan_of([(r, i < hashed) for i, r in enumerate(ratios)], build)
    head = whole("streams", streams * streams * d.hidden + streams + 1, FP32)
    return replace(plan, extras=(("each", head),))


def _expert_bits(text: Fields) -> int:
    """Format of the experts, which its fp8 checkpoints store in 4 bits (quant_config.py)."""
    stored = text.child("quantization_config")
    if stored is None or text.text("expert_dtype", "fp4") == "fp8":
        return 0
    return 4_500 if stored.text("moe_quant_algo").upper() == "NVFP4" else 4_250


def _attention(text: Fields, d: Dimensions) -> Iterable[Part]:
    rank = text.integer("q_lora_rank", 1, MOST_WIDTH)
    groups = text.integer("o_groups", 1, MOST_HEADS)
    out = groups * text.integer("o_lora_rank", 1, MOST_WIDTH)
    wide = d.heads * d.head_dim
    yield replicated("attentionDown", "attn.wq_a", d.hidden, rank + d.head_dim)
    yield column("attention", "attn.wq_b", rank, wide)
    yield column("attention", "attn.wo_a", wide // groups, out)
    yield row("attention", "attn.wo_b", out, d.hidden)
    yield whole("norms", rank + d.head_dim)
    yield shared("attention", max(LEAST_HEADS, d.heads), FP32)


def _compressor(hidden: int, head_dim: int, ratio: int) -> Iterable[Part]:
    """Turns `ratio` tokens into one entry of the cache; never quantised, whole on every rank."""
    width = head_dim * (2 if ratio == FINE else 1)
    yield whole("compressor", 2 * hidden * width + head_dim)
    yield whole("compressor", ratio * width, FP32)


def _indexer(text: Fields, d: Dimensions, ratio: int) -> Iterable[Part]:
    heads = text.integer("index_n_heads", 1, MOST_HEADS)
    head_dim = text.integer("index_head_dim", 1, MOST_HEAD_DIM)
    rank = text.integer("q_lora_rank", 1, MOST_WIDTH)
    yield replicated("indexer", "attn.indexer.wq_b", rank, heads * head_dim)
    yield whole("indexer", d.hidden * heads)
    yield from _compressor(d.hidden, head_dim, ratio)
