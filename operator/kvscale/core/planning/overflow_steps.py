"""The trace of a plan by overflow probability."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.sequence_formula import blocks_formula
from kvscale.core.planning.overflow import Risk
from kvscale.core.spec import PER_MILLION
from kvscale.core.trace import Step
from kvscale.core.traffic.compound_poisson import Moments
from kvscale.core.traffic.residency import Residence, significant


@dataclass(frozen=True, slots=True)
class OverflowCount:
    """A number of replicas under a rate.

    Attributes:
        replicas: the smallest number that overflows rarely enough.
        probability: that an engine's residents exceed its usable blocks, at a random moment.
        probability_of_one_less: the same with one replica less; 1 where that cannot serve the
            rate at all, as no replica can.
        residents: mean sequences of one engine.
        blocks: of their sum: mean, standard deviation, skewness, in blocks of one engine.
    """

    replicas: int
    probability: float
    probability_of_one_less: float
    residents: float
    blocks: Moments


def largest_step(risk: Risk, largest: Residence, per_million: int) -> Step:
    """The largest batch whose residents exceed the memory that rarely."""
    return Step(
        "plannedBatch",
        significant(largest.batch),
        "sequences per engine",
        "largest mean batch with P(sum of the residents' blocks > usableBlocksLow) <= accepted, "
        "at most maxNumSeqs",
        (
            ("usableBlocksLow", risk.usable_blocks),
            ("acceptedPerMillion", per_million),
            ("maxNumSeqs", risk.max_num_seqs),
        ),
        "compound Poisson: Panjer 1981; Lugannani and Rice 1980",
    )


def rare_step(capacity: EngineCapacity, tokens: int, blocks: int) -> Step:
    """The request that an engine must be able to hold by itself."""
    formula, inputs = blocks_formula(
        capacity.pools, capacity.groups, capacity.block_tokens, "rareRequestTokens"
    )
    return Step(
        "rareRequestBlocks",
        blocks,
        "blocks",
        f"{formula}; a p99.9 request by itself must fit usableBlocksLow",
        (
            ("rareRequestTokens", tokens),
            *inputs,
            ("usableBlocksLow", capacity.usable_blocks.low),
        ),
    )


def count_steps(
    name: str, count: OverflowCount, usable: int, per_million: int
) -> tuple[Step, Step]:
    """What the residents of an engine hold at one rate, and the replicas that follow."""
    return (
        Step(
            f"residentBlocksAt{name}",
            significant(count.blocks.mean),
            "blocks per engine",
            "residents * blocksPerResident; their sum has a standardDeviation and should not "
            "exceed usableBlocksLow",
            (
                ("residents", significant(count.residents)),
                ("blocksPerResident", significant(count.blocks.mean / count.residents)),
                ("standardDeviation", significant(count.blocks.deviation)),
                ("usableBlocksLow", usable),
            ),
        ),
        Step(
            f"floorAt{name}",
            count.replicas,
            "replicas",
            "smallest number with P(residents' blocks of an engine > usable) <= accepted",
            (
                ("probability", significant(count.probability)),
                ("probabilityOfOneLess", significant(count.probability_of_one_less)),
                ("accepted", per_million / PER_MILLION),
            ),
        ),
    )
