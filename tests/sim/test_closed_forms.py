"""The closed forms of the engine against counting."""

from hypothesis import given
from hypothesis import strategies as st

from kvscale.sim.blocks import BlockDemand
from kvscale.sim.run import Run

batches = st.lists(st.integers(1, 200), min_size=1, max_size=20)


def demand(block: int, step: int, tokens: list[int]) -> BlockDemand:
    counted = BlockDemand(block)
    for length in tokens:
        counted.add(step, length)
    return counted


def blocks(tokens: list[int], grown: int, block: int) -> int:
    return sum(-(-(length - 1 + grown) // block) for length in tokens)


@given(st.integers(1, 20), st.integers(0, 100), batches, st.integers(0, 100), st.integers(0, 100))
def test_block_demand_is_what_counting_every_sequence_gives(
    block: int, step: int, tokens: list[int], skipped: int, steps: int
) -> None:
    counted = demand(block, step, tokens).over(step + skipped, steps)
    assert counted == blocks(tokens, skipped + steps, block) - blocks(tokens, skipped, block)


@given(st.integers(1, 20), st.integers(0, 100), batches, st.integers(0, 100), st.integers(1, 300))
def test_the_steps_that_free_blocks_allow_are_the_most_that_they_allow(
    block: int, step: int, tokens: list[int], free: int, limit: int
) -> None:
    counted = demand(block, step, tokens)
    steps = counted.steps_within(step, free, limit)
    assert counted.over(step, steps) <= free
    assert steps == limit or counted.over(step, steps + 1) > free


@given(st.integers(1, 20), st.integers(0, 100), batches)
def test_a_forgotten_sequence_asks_for_nothing(block: int, step: int, tokens: list[int]) -> None:
    counted = BlockDemand(block)
    remainders = [counted.add(step, length) for length in tokens]
    for remainder in remainders:
        counted.remove(remainder)
    assert counted.over(step, 500) == 0
    assert counted.steps_within(step, 0, 500) == 500


runs = st.builds(
    Run,
    start=st.floats(0, 1e6),
    first=st.floats(1e-4, 1),
    growth=st.sampled_from([0.0, 1e-9, 1e-6, 1e-3]),
    steps=st.integers(1, 5000),
)


@given(runs)
def test_the_steps_of_a_run_end_one_after_the_other(run: Run) -> None:
    at = run.start
    for j in range(min(run.steps, 50)):
        at += run.first + run.growth * j
        assert abs(run.end_of(j + 1) - at) < 1e-6


@given(runs, st.floats(-1, 5000))
def test_the_steps_done_by_a_moment_are_those_that_ended_by_then(run: Run, after: float) -> None:
    at = run.start + after
    done = run.done_by(at)
    assert done == 0 or run.end_of(done) <= at
    assert done == run.steps or run.end_of(done + 1) > at


@given(runs, st.integers(1, 5000))
def test_a_step_is_done_at_the_moment_of_its_end(run: Run, step: int) -> None:
    step = min(step, run.steps)
    assert run.done_by(run.end_of(step)) >= step


@given(runs, st.floats(0, 5000))
def test_a_run_is_cut_at_the_end_of_the_step_in_progress(run: Run, after: float) -> None:
    at, steps, end = run.start + after, run.steps, run.end
    run.cut_at(at)
    assert run.steps <= steps
    assert run.end >= min(at, end)
    assert run.steps == 0 or run.end_of(run.steps - 1) < at
