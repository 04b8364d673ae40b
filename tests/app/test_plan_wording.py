"""Numbers of a plan's page as words: small probabilities, hundred per cent, names of devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.app.plan_modes_view import _percent
from kvscale.app.tables import short_name


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.999, "100 %"),
        (0.5, "50 %"),
        (0.0018, "0.18 %"),
        (1e-6, "0.0001 %"),
        (9e-7, "under 0.0001 %"),
        (0.0, "under 0.0001 %"),
    ],
)
def test_a_share_is_written_out(share: float, text: str) -> None:
    assert _percent(share) == text


@given(share=st.floats(0, 1))
def test_a_share_is_never_an_exponent(share: float) -> None:
    text = _percent(share)
    assert "e" not in text.removeprefix("under ")
    if not text.startswith("under"):
        assert float(text.removesuffix(" %")) == pytest.approx(100 * share, rel=0.06)


@pytest.mark.parametrize(
    ("product", "short"),
    [
        ("NVIDIA-L4", "L4"),
        ("8 x NVIDIA-B200", "8 x B200"),
        ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("AMD-Instinct-MI300X", "Instinct-MI300X"),
        ("KV cache in fp8", "KV cache in fp8"),
    ],
)
def test_a_short_name_leaves_out_the_vendor(product: str, short: str) -> None:
    assert short_name(product) == short
