"""What `kvscale capacity` says of an engine, as a page for people."""

from kvscale.app.capacity import CapacityView
from kvscale.app.capacity_facts import capacity_facts
from kvscale.app.tables import band, facts, notes, number, table, trace_lines
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.refusal import Refusal
from kvscale.core.trace import counted
from kvscale.core.values import Band


def capacity_page(view: CapacityView, title: str) -> list[str]:
    """The view for a person; of a refusal only its message."""
    capacity = view.capacity
    if isinstance(capacity, Refusal):
        return [capacity.message]
    lines = [title, "", *facts([*capacity_facts(capacity), *_replica_facts(view, capacity)])]
    lines += ["", "What one block consists of, on one device"]
    lines += table(
        ("layers", "tables", "layers each", "tokens/block", "bytes/block"), _tables(capacity)
    )
    headers, rows = ["tokens", "blocks", "low", "expected", "high"], []
    several = view.engines > 1
    headers += ["run at once", *(["replica", "replica runs"] if several else [])]
    for one in view.sequences:
        each, running = one.per_engine, one.runs(capacity.max_num_seqs)
        counts = [one.tokens, one.blocks, each.low, each.expected, each.high, running]
        if several:
            counts += [one.per_replica.expected, running * view.engines]
        rows.append([number(count) for count in counts])
    lines += ["", "Resident sequences of one engine by KV memory, by length"]
    lines += table(headers, rows, left=0)
    lines += notes("Assumptions", capacity.assumptions)
    return [*lines, "", "How", *trace_lines(capacity.trace)]


def _tables(capacity: EngineCapacity) -> list[tuple[str, ...]]:
    """The block tables of the engine; those that are alike are one row."""
    found: dict[tuple[str, ...], int] = {}
    for group in capacity.groups:
        kinds = " + ".join(
            f"{number(layers)} {kind.value}" if group.kinds else kind.value
            for kind, layers in group.layers_by_kind
        )
        row = (
            kinds,
            number(group.layers),
            number(group.block_tokens),
            number(group.bytes_per_block),
        )
        found[row] = found.get(row, 0) + 1
    return [(row[0], number(count), *row[1:]) for row, count in found.items()]


def _replica_facts(view: CapacityView, capacity: EngineCapacity) -> list[tuple[str, str]]:
    """What the engines of one pod hold together; nothing where there is one."""
    if view.engines == 1:
        return []
    tokens = capacity.kv_cache_size_tokens
    sums = Band(*(n * view.engines for n in (tokens.low, tokens.expected, tokens.high)))
    text = (
        f"{counted(view.engines, 'engine')} on "
        f"{counted(view.engines * view.engine.devices, 'device')}: {band(sums)} tokens, a sequence "
        "in one of them"
    )
    return [("replica", text)]
