"""Whoever takes the printed inputs of a capacity finds the printed values, for every engine."""

import pytest
from tests.support.engine_cases import starting
from tests.support.formulas import trace_faults

from kvscale.core.engines.config import EngineKind
from kvscale.core.model.catalogue import CONFIGS

STATEMENTS = {
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
"""Formulas that only say where a number is from."""


@pytest.mark.parametrize("kind", EngineKind)
@pytest.mark.parametrize("model", CONFIGS)
def test_every_step_follows_from_its_inputs(model, kind):
    for case, capacity in starting(model, kind, 25):
        assert not trace_faults(capacity.trace, STATEMENTS), case[1:]
