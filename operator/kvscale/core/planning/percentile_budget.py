"""The budget by percentile: every request as long as the one at the planning percentile.

batch = min(usable blocks x target occupancy / blocks of that request, max_num_seqs)
"""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.sequence_formula import blocks_formula
from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import (
    PREFILL_SHARE_LIMIT,
    FloorBound,
    Residence,
    significant,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """What the plan lets one engine hold.

    Attributes:
        percentile: the planning percentile.
        occupancy_percent: share of the usable blocks that is filled.
        footprint_tokens, footprint_blocks: the request at that percentile.
        usable_blocks: the low end of what the engine may have.
        max_num_seqs: its largest batch.
        capacity: of the engine.
    """

    percentile: int
    occupancy_percent: int
    footprint_tokens: int
    footprint_blocks: int
    usable_blocks: int
    max_num_seqs: int
    capacity: EngineCapacity

    @classmethod
    def of(
        cls, capacity: EngineCapacity, requests: Profile, percentile: int, occupancy_percent: int
    ) -> "Budget":
        """The budget of an engine for that traffic."""
        tokens = requests.total.tokens(percentile)
        return cls(
            percentile,
            occupancy_percent,
            tokens,
            capacity.blocks_for(tokens),
            capacity.usable_blocks.low,
            capacity.max_num_seqs,
            capacity,
        )

    @property
    def batch_by_blocks(self) -> float:
        """Sequences of the planning footprint at the target occupancy; not a whole number."""
        return self.usable_blocks * self.occupancy_percent / 100 / self.footprint_blocks

    @property
    def batch(self) -> float:
        """Sequences that the plan lets one engine hold."""
        return min(self.batch_by_blocks, float(self.max_num_seqs))

    @property
    def bound(self) -> FloorBound:
        """What limits the batch."""
        return "KV" if self.batch_by_blocks <= self.max_num_seqs else "Sequences"

    def trace(self) -> Trace:
        """The arithmetic."""
        held = self.capacity
        formula, inputs = blocks_formula(
            held.pools, held.groups, held.block_tokens, "footprintTokens"
        )
        return (
            Step(
                "footprintTokens",
                self.footprint_tokens,
                "tokens",
                f"p{self.percentile} of prompt + output; not the sum of two percentiles",
            ),
            Step(
                "footprintBlocks",
                self.footprint_blocks,
                "blocks",
                formula,
                (("footprintTokens", self.footprint_tokens), *inputs),
            ),
            Step(
                "plannedBatch",
                significant(self.batch),
                "sequences per engine",
                "min(usableBlocksLow * targetOccupancy / footprintBlocks, maxNumSeqs)",
                (
                    ("usableBlocksLow", self.usable_blocks),
                    ("targetOccupancy", self.occupancy_percent / 100),
                    ("footprintBlocks", self.footprint_blocks),
                    ("maxNumSeqs", self.max_num_seqs),
                ),
            ),
        )


def rate_steps(
    name: str, per_minute: int, replicas: int, stay: Residence, engines: int
) -> tuple[Step, Step]:
    """What one declared rate asks for: resident requests, and replicas."""
    concurrency = per_minute / 60 * stay.seconds
    by_batch = concurrency / stay.batch / engines
    by_prefill = per_minute / 60 * stay.prefill_work_seconds / PREFILL_SHARE_LIMIT / engines
    return (
        Step(
            f"concurrencyAt{name}",
            significant(concurrency),
            "resident requests",
            "requestsPerMinute / 60 * residenceSeconds",
            (
                ("requestsPerMinute", per_minute),
                ("residenceSeconds", significant(stay.seconds)),
            ),
        ),
        Step(
            f"floorAt{name}",
            replicas,
            "replicas",
            f"ceil(max(byBatch, byPrefill)) where byBatch = concurrencyAt{name} / plannedBatch / "
            "enginesPerReplica, byPrefill = requestsPerMinute / 60 * prefillWorkSeconds / "
            f"{PREFILL_SHARE_LIMIT} / enginesPerReplica",
            (
                ("requestsPerMinute", per_minute),
                ("prefillWorkSeconds", significant(stay.prefill_work_seconds)),
                (f"concurrencyAt{name}", significant(concurrency)),
                ("plannedBatch", significant(stay.batch)),
                ("enginesPerReplica", engines),
                ("byBatch", significant(by_batch)),
                ("byPrefill", significant(by_prefill)),
            ),
        ),
    )
