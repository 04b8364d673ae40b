"""Whoever takes the printed inputs of a decision finds the printed values."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.decide.test_invariants import worlds
from tests.support.formulas import four_digits, trace_faults
from tests.support.statements import OF_DECISION

from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import LoadPoint
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.spec import PlanningMode
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from support.scenario import T, settled, snapshot

TRAFFIC = Traffic(
    mean_per_minute=600,
    prompt_tokens=LengthPercentiles(mean=900, p95=3300),
    output_tokens=LengthPercentiles(mean=220, p95=640),
)


def growing(replicas, per_second):
    """The state of a pool whose load has grown so fast."""
    ages = range(180, 0, -15)
    load = tuple(LoadPoint(T - age, max(0, 3000 - age * per_second), 0.0) for age in ages)
    return settled(replicas, load=load)


plannings = st.fixed_dictionaries(
    {
        "planning_mode": st.sampled_from(list(PlanningMode)),
        "percentile": st.integers(1, 99),
        "overflow_per_million": st.integers(1, 900_000),
        "traffic": st.sampled_from([None, TRAFFIC]),
    }
)


KNOWN = {
    "shape": preset("meta-llama/Llama-3.1-8B"),
    "engine": EngineConfig(version="0.32", max_model_len=16_384),
    "device": find_device("NVIDIA-L4"),
}
"""What there is to compute a capacity and a floor from."""


@settings(max_examples=300)
@given(worlds(), plannings, st.sampled_from([{}, KNOWN]), st.integers(0, 20))
def test_every_step_follows_from_its_inputs(seen, planning, known, slope):
    planned = replace(seen.spec, **planning)
    world = snapshot(replace(seen, spec=planned, **known))
    (got,), _ = decide(world, growing(seen.target.replicas, slope), T)
    assert not trace_faults(got.trace, OF_DECISION, four_digits)
