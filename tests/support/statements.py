"""Formulas that are no arithmetic: they only say where a number is from.

By the name of the step, a pattern of its formula. Whatever is not here must be worked out by hand
from its inputs (`support.formulas`).
"""

OF_CAPACITY = {
    # What a device has is measured, or in its data sheet.
    "cudaTotalBytes": "total memory of the device, as the CUDA runtime reports it",
    # The user's number.
    "kvMemoryBytes": "as given; no (profiling|estimate)",
    "memFractionStatic": "--mem-fraction-static",
    "kvBlocks": "--num-gpu-blocks-override",
    # A choice: stated, the engine's default, or the block of the kernel that it takes.
    "blockTokens": "default|--block-size|--page-size|raised to what .* needs|.* needs it"
    "|sparse attention works with pages of 64",
}
OF_PLAN = OF_CAPACITY | {
    # Of a whole distribution of lengths.
    "footprintTokens": r"p\d+ of prompt \+ output; not the sum of two percentiles",
    "prefillSeconds": "mean time of a prompt alone, in chunks of maxNumBatchedTokens",
    # A search, each step of which is a compound Poisson distribution.
    "plannedBatch": r"largest mean batch with P\(.*",
    "floorAtMean": r"smallest number with P\(.*",
    "floorAtPeak": r"smallest number with P\(.*",
}
OF_DECISION = OF_PLAN | {
    # A sum over samples of the engines.
    "usedBlocks": r"measured: sum over engines of usage \* usable blocks",
    # The user's number, and the plan's.
    "boundMin": "spec.scaling.minReplicas",
    "boundFloor": "declared traffic at its (mean|peak) rate",
    # Proven or not, by the clause that the formula tells.
    "removalProof": ".*",
}
