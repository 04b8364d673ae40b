"""How many blocks an engine has for sequences: its own word first, else the computed number.

Rule 7: the engine's own block count, when reported, replaces the computed one; both are shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide.state import ReportedBlocks
from kvscale.core.engines.sample import EngineSample
from kvscale.core.engines.vllm.rules import RESERVED_BLOCKS
from kvscale.core.refusal import Refusal
from kvscale.core.snapshot import PodState
from kvscale.core.trace import Step
from kvscale.core.values import Known, Unknown

KEPT_REVISIONS = 4
"""Revisions whose reports are remembered: the current one, and what a rollout may go back to."""


@dataclass(frozen=True, slots=True)
class EngineBlocks:
    """Blocks of one engine of the current revision.

    Attributes:
        usable: blocks that sequences can be given.
        block_tokens: tokens per block.
        computed: usable blocks by our arithmetic (low end); None when there is none.
        reported: usable blocks by the engines' own count (the smallest); None: not reported.
    """

    usable: int
    block_tokens: int
    computed: int | None
    reported: int | None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The trace of the choice."""
        inputs = (
            ("computed", "-" if self.computed is None else self.computed),
            ("reported", "-" if self.reported is None else self.reported),
        )
        return (
            Step(
                "usableBlocksPerEngine",
                self.usable,
                "blocks",
                "computed; the low end, as no engine has reported"
                if self.reported is None
                else "reported; the engine's own count less what it keeps back, whatever is "
                "computed",
                inputs,
                "docs/decisions.md, rule 7",
            ),
        )


def reported_blocks(sample: EngineSample) -> int | None:
    """Total blocks by the engine's own word; None while it has none for a sequence.

    An engine that starts states 0 before it has measured: that is not known, not nothing (rule 1).
    """
    blocks = sample.kv_blocks
    return blocks if blocks is not None and blocks > sample.reserved_blocks else None


def usable_of(sample: EngineSample, fallback: int) -> int:
    """Usable blocks of one engine: what it reports, else `fallback`."""
    blocks = reported_blocks(sample)
    return fallback if blocks is None else blocks - sample.reserved_blocks


def read_reports(
    pods: tuple[PodState, ...], remembered: Mapping[str, ReportedBlocks]
) -> Mapping[str, ReportedBlocks]:
    """The engines' own block counts by template hash: the smallest decides within a revision.

    Revisions that report nothing now keep what they reported, as long as they are among the last
    few: a ceiling does not change while metrics are away.
    """
    now: dict[str, ReportedBlocks] = {}
    for pod in pods:
        if not isinstance(pod.metrics, Known):
            continue
        for sample in pod.metrics.value:
            seen, blocks = now.get(pod.template_hash), reported_blocks(sample)
            if blocks is not None and (seen is None or blocks < seen.kv_blocks):
                now[pod.template_hash] = ReportedBlocks(blocks, sample.block_tokens)
    merged = {**{key: value for key, value in remembered.items() if key not in now}, **now}
    return dict(list(merged.items())[-KEPT_REVISIONS:])


def engine_blocks(
    capacity: EngineCapacity | Refusal | Unknown,
    reports: Mapping[str, ReportedBlocks],
    template_hash: str,
) -> EngineBlocks | Unknown:
    """Blocks of an engine of the revision `template_hash`.

    A rollout has two ceilings: a report of an older revision says nothing of the new one. Only
    when the current revision is silent and nothing can be computed, the newest report is taken.
    """
    computed = capacity if isinstance(capacity, EngineCapacity) else None
    report = reports.get(template_hash)
    if report is None and computed is None and reports:
        report = list(reports.values())[-1]
    if report is not None:
        # What is kept back is the engine's rule; of an engine that none is known of, vLLM's.
        kept = RESERVED_BLOCKS if computed is None else computed.reserved_blocks
        usable = report.kv_blocks - kept
        return EngineBlocks(
            usable=usable,
            block_tokens=report.block_tokens or (computed.block_tokens if computed else 16),
            computed=computed.usable_blocks.low if computed is not None else None,
            reported=usable,
        )
    if computed is not None:
        usable = computed.usable_blocks.low
        return EngineBlocks(usable, computed.block_tokens, usable, None)
    if isinstance(capacity, Refusal):
        return Unknown(capacity.reason, f"{capacity.field}: {capacity.message}")
    return capacity if isinstance(capacity, Unknown) else Unknown("CapacityUnknown")
