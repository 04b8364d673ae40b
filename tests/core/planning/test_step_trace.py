"""The step time of a planned batch by hand, also where the roofline bends between two batches."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.formulas import four_digits, trace_faults
from tests.support.statements import OF_PLAN

from kvscale.core.capacity.roofline import SparseWeights, StepTime
from kvscale.core.planning.service import Service

tiny = st.floats(1e-9, 1e-4)
models = st.builds(
    StepTime,
    fixed=st.floats(1e-4, 1e-3),
    dense=st.floats(1e-4, 1e-2),
    sparse=st.sampled_from([(), (SparseWeights(0.01, 0.9),)]),
    kv_token=tiny,
    compute_token=st.floats(1e-6, 1e-3),
    compute_pair=st.floats(1e-12, 1e-8),
    stages=st.sampled_from([1, 4]),
    kv_sequence=st.sampled_from([0.0, 1e-5]),
)


@given(models, st.floats(0.01, 600), st.integers(1, 900))
def test_the_step_follows_from_its_inputs(model, batch, resident):
    service = Service(model, 0.2, model.compute_token * 500, 90.0, float(resident), 500.0, 0.0)
    assert not trace_faults(service.trace(service.at(batch)), OF_PLAN, four_digits)


def test_where_the_roofline_bends_the_time_is_a_straight_line():
    # Reading takes 0.0105 s at any batch; computing 0.010 s at 10 and 0.011 s at 11.
    bends = StepTime(0.001, 0.0105, (), 0.0, 0.001, 0.0)
    service = Service(bends, 0.2, 0.1, 90.0, 100.0, 100.0, 0.0)
    stay = service.at(10.5)
    step = service.trace(stay)[2]
    assert step.value == 0.01175
    assert step.formula.startswith("batchSeconds")
    assert not trace_faults(service.trace(stay), OF_PLAN, four_digits)
