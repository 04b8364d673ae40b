"""Names of number formats and what they cost.

Sources: vllm v0.32.0 config/cache.py (CacheDType), v1/kv_cache_interface.py (page sizes),
config/model.py (`_resolve_auto_dtype`).
"""

from dataclasses import dataclass
from functools import lru_cache

BITS = {"bfloat16": 16_000, "float16": 16_000, "float32": 32_000}
"""Unquantised formats: thousandths of a bit per element."""

ALIASES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "float": "float32",
    "fp32": "float32",
}


@lru_cache(maxsize=256)
def canonical(name: str) -> str:
    """The full name of an unquantised format ("half" is "float16"); others unchanged."""
    bare = name.removeprefix("torch.").lower()
    return ALIASES.get(bare, bare)


@dataclass(frozen=True, slots=True)
class KvDtype:
    """How an engine stores K and V.

    Attributes:
        name: canonical name.
        bits_milli: thousandths of a bit per element, block scales included.
        head_scale_bytes: bytes of scale per head and token, once for K and once for V.
        latent: whether MLA's latent can be stored so.
        latent_only: nothing else can.
    """

    name: str
    bits_milli: int
    head_scale_bytes: int = 0
    latent: bool = True
    latent_only: bool = False

    def side_bytes(self, elements: int) -> int:
        """Bytes of one K (or V) vector of one head and token; rounded up to a byte."""
        return -(-elements * self.bits_milli // 8_000) + (self.head_scale_bytes if elements else 0)


_KV = {
    "bfloat16": KvDtype("bfloat16", 16_000),
    "float16": KvDtype("float16", 16_000),
    "float32": KvDtype("float32", 32_000),
    "fp8": KvDtype("fp8", 8_000),
    "fp8_e4m3": KvDtype("fp8_e4m3", 8_000),
    "fp8_e5m2": KvDtype("fp8_e5m2", 8_000),
    "fp8_inc": KvDtype("fp8_inc", 8_000),
    # One fp32 scale per head and token, for K and for V.
    "int8_per_token_head": KvDtype("int8_per_token_head", 8_000, 4, latent=False),
    "fp8_per_token_head": KvDtype("fp8_per_token_head", 8_000, 4, latent=False),
    # 4 bits and one fp8 scale per 16 elements.
    "nvfp4": KvDtype("nvfp4", 4_500, latent=False),
    # Packed rows of sparse MLA, whose size `core.engines.layer_rules` knows.
    "fp8_ds_mla": KvDtype("fp8_ds_mla", 8_000, latent_only=True),
    "nvfp4_ds_mla": KvDtype("nvfp4_ds_mla", 4_500, latent_only=True),
}

KV_DTYPES = tuple(_KV)
"""Every KV cache dtype whose page size is known."""


def kv_dtype(name: str) -> KvDtype | None:
    """The storage of that `--kv-cache-dtype`, or None if its page size is not known here."""
    return _KV.get(canonical(name))
