"""The main numbers of a ceiling, for people: the same in every page."""

from kvscale.app.tables import band, number, size, size_band
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.trace import counted


def capacity_facts(capacity: EngineCapacity) -> list[tuple[str, str]]:
    """The capacity's main numbers, named, for `tables.facts`."""
    concurrency = capacity.max_concurrency_milli.expected / 1000
    longest = number(capacity.max_model_len)
    return [
        ("weights per device", size(capacity.weight_bytes_per_device)),
        ("KV memory per device", size_band(capacity.kv_memory_bytes)),
        (
            "bytes per block",
            f"{number(capacity.bytes_per_block)} ({counted(capacity.block_tokens, 'token')})",
        ),
        ("KV blocks", band(capacity.kv_blocks)),
        ("KV cache size, tokens", band(capacity.kv_cache_size_tokens)),
        ("max concurrency", f"{concurrency:.2f} sequences of {longest} tokens"),
        ("largest batch", f"{number(capacity.max_num_seqs)} sequences (--max-num-seqs)"),
    ]
