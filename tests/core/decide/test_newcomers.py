"""Load that has moved to a new pod is counted once, whenever each pod was sampled."""

import pytest

from kvscale.core.decide.newcomers import counted_shares
from support.scenario import T, pod, sample


def fresh(*members):
    """(ready, sampled) of each pod, in seconds after T."""
    return [
        (seen := pod(f"p{i}", sample(), at=T + at, ready_at=T + ready), seen.metrics)
        for i, (ready, at) in enumerate(members)
    ]


@pytest.mark.parametrize(
    ("members", "shares"),
    [
        ([(-900, 0), (-900, 30)], [1, 1]),  # nobody is new
        ([(-900, 0), (-900, 5), (10, 20)], [1, 1, 0]),  # both still show all of it
        ([(-900, 0), (-900, 15), (10, 20)], [1, 1, 0.5]),
        ([(-900, 12), (-900, 15), (10, 20)], [1, 1, 1]),  # both show their new share
        ([(-900, 0), (-900, 15), (10, 20), (18, 20)], [1, 1, 0.5, 0]),
        ([(-900, 0), (600, 20)], [1, 1]),  # ready after its sample: another clock
        ([(5, 20), (6, 21)], [1, 1]),  # all are new
        ([], []),
    ],
)
def test_shares(members, shares):
    assert counted_shares(fresh(*members)) == shares


def test_an_even_load_is_summed_up_exactly_while_it_moves():
    """12 are spread over 3, then over 4; k of the old pods have been sampled since."""
    for sampled in range(4):
        old = [(-900, 40 if k < sampled else 0) for k in range(3)]
        load = [3.0 if k < sampled else 4.0 for k in range(3)] + [3.0]
        shares = counted_shares(fresh(*old, (30, 45)))
        assert sum(s * held for s, held in zip(shares, load, strict=True)) == pytest.approx(12.0)
