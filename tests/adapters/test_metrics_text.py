"""The text format, read with limits; and every real page through to samples or a named reason."""

import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvscale.adapters.metrics_text import MAX_LINE_BYTES, MAX_SERIES, parse
from kvscale.core.engines.sample import EngineSample
from kvscale.core.engines.vllm.metrics import SERIES_NAMES, read_pod
from kvscale.core.values import Unknown

DATA = Path(__file__).parents[1] / "data" / "metrics"
LLAMA_FP8 = "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8"
USAGE = b"vllm:kv_cache_usage_perc"

OPT_125M = EngineSample(
    engine="0",
    kv_usage=0.0,
    running=0,
    waiting=0,
    preemptions_total=0.0,
    prompt_tokens_total=5.0,
    generation_tokens_total=7.0,
    prefix_hits_total=64.0,
    prefix_queries_total=117.0,
    kv_blocks=7281,
    block_tokens=16,
)
LLAMA_8B = EngineSample(
    engine="0",
    kv_usage=0.0026235242675994863,
    running=3,
    waiting=2,
    preemptions_total=0.0,
    prompt_tokens_total=90.0,
    generation_tokens_total=2546.0,
    kv_blocks=4574,
    block_tokens=16,
)
TWO_ENGINES = (
    EngineSample(
        "0", 0.8125, 37, 9, 4.0, 2482176.0, 611034.0, 1204224.0, 2482176.0, 4000, 16, 64000
    ),
    EngineSample("1", 0.25, 12, 0, 0.0, 902144.0, 222110.0, 409600.0, 902144.0, 4000, 16, 64000),
)
PAGES = {
    ("vllm_v1_two_engines.prom", ""): TWO_ENGINES,
    ("vllm_v0_opt125m_datadog_2024-06.prom", ""): (OPT_125M,),
    ("vllm_v0_llama31_8b_fp8_2024-08.prom", LLAMA_FP8): (LLAMA_8B,),
    ("vllm_v0_llama31_8b_fp8_2024-08.prom", ""): "SeveralModels",
    ("vllm_v0_llama31_8b_fp8_2024-08.prom", "gpt-5"): "ModelNotServed",
    ("dynamo_and_sim_excerpts.prom", ""): "IncompleteSeries",
    ("ray_serve_vllm_v0_2024-12.prom", ""): "NoEngineSeries",
    ("sglang_0.5.10_opt125m_datadog.prom", ""): "NoEngineSeries",
    ("sglang_docs_llama31_8b_overloaded.prom", ""): "NoEngineSeries",
    ("sglang_issue_excerpts.prom", ""): "NoEngineSeries",
    ("llamacpp_b11434_idle.prom", ""): "NoEngineSeries",
    ("llamacpp_b11434_overloaded.prom", ""): "NoEngineSeries",
    ("llamacpp_issue_excerpts.prom", ""): "NoEngineSeries",
    ("tgi_ibm_fork_excerpt.prom", ""): "NoEngineSeries",
    ("triton_trtllm_v1_and_base.prom", ""): "NoEngineSeries",
    ("trtllm_excerpts.prom", ""): "NoEngineSeries",
}


@pytest.mark.parametrize(("page", "expected"), PAGES.items(), ids=lambda value: str(value)[:60])
def test_every_real_page_gives_its_numbers_or_a_named_reason(page, expected):
    name, model = page
    series = parse((DATA / name).read_bytes())
    assert not isinstance(series, Unknown)
    result = read_pod(series, model)
    assert (result.reason if isinstance(result, Unknown) else result) == expected


def test_the_table_covers_every_page():
    assert {name for name, _ in PAGES} == {path.name for path in DATA.glob("*.prom")}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"<!doctype html>", 1),
        (b"[]", 1),
        (b'{"status": "ok"}', 1),
        (b"a 1\n\n# comment\n\x00\xff\n", 4),
        (USAGE + b" 0.5\n" + USAGE + b' {engine="0" 0.5\n', 2),
        (USAGE + b'{engine="0"} none', 1),
        (USAGE + b'{engine="\xff"} 0.5', 1),
        (USAGE + b"{engine=0} 0.5", 1),
        (USAGE + b"{, =0} 0.5", 1),
        (USAGE + b" " + b"1" * 400, 1),
    ],
)
def test_a_malformed_body_is_unknown_by_the_number_of_its_line(body, line):
    result = parse(body)
    assert isinstance(result, Unknown)
    assert result.reason == "MalformedMetrics"
    assert f"line {line} " in result.message


def test_a_flaw_in_a_family_that_is_not_read_does_no_harm():
    series = parse(b"other{broken 1\n" + USAGE + b'{engine="0"} 0.5\n')
    assert [(one.name, one.labels, one.value) for one in series] == [
        (USAGE.decode(), {"engine": "0"}, 0.5)
    ]


@pytest.mark.parametrize(
    ("text", "value"), [(b"3.9e+010", 3.9e10), (b"+Inf", math.inf), (b"-1", -1.0), (b"7 1796", 7.0)]
)
def test_numbers_in_every_spelling_reach_the_core(text, value):
    (one,) = parse(USAGE + b" " + text)
    assert one.value == value


@pytest.mark.parametrize("body", [b"", b"\n \t\n\r\n", b"# only a comment"])
def test_an_empty_body_has_no_series(body):
    assert parse(body) == ()


def test_windows_line_ends_and_indents_are_read():
    (one,) = parse(b"# x\r\n  " + USAGE + b" 0.5\r\n")
    assert one.value == 0.5


def test_names_that_merely_begin_alike_are_not_taken():
    assert parse(USAGE + b"_extra 0.5\n") == ()


def test_labels_with_escapes_keep_their_meaning():
    (one,) = parse(USAGE + b'{model_name="a\\"b\\\\c\\nd"} 0.5')
    assert one.labels == {"model_name": 'a"b\\c\nd'}


def test_too_many_series_are_refused():
    line = USAGE + b" 0.5\n"
    assert len(parse(line * MAX_SERIES)) == MAX_SERIES
    result = parse(line * (MAX_SERIES + 1))
    assert isinstance(result, Unknown)
    assert result.reason == "TooManySeries"


def test_an_overlong_line_is_refused_before_it_is_parsed():
    result = parse(USAGE + b'{a="' + b"x" * MAX_LINE_BYTES + b'"} 1')
    assert isinstance(result, Unknown)
    assert result.reason == "MalformedMetrics"


def test_no_message_repeats_the_body():
    result = parse(USAGE + b'{token="s3cret} 1')
    assert isinstance(result, Unknown)
    assert "s3cret" not in result.message


HOSTILE = st.lists(
    st.sampled_from(
        [
            *(name.encode() for name in SERIES_NAMES),
            *(b"{", b"}", b'"', b"\\", b"=", b",", b" ", b"\n", b"\r", b"\t", b"#", b"_", b"\x00"),
            *(
                b"# TYPE ",
                b"# HELP ",
                b"engine",
                b"NaN",
                b"1",
                b"1e999",
                b"-",
                b"\xc3\xa9",
                b"\xff",
            ),
        ]
    ),
    max_size=40,
).map(b"".join)


@given(HOSTILE | st.binary(max_size=200))
@example(USAGE + b"{,")
@example(USAGE + b"{a=")
@example(USAGE + b" " + b"1" * 400)
def test_no_body_raises(body):
    result = parse(body)
    if isinstance(result, Unknown):
        assert result.reason in {"MalformedMetrics", "TooManySeries"}
    else:
        assert all(one.name in SERIES_NAMES for one in result)


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(
            lambda name: not name.startswith("__")
        ),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        max_size=4,
    ),
    st.floats(allow_nan=False),
)
def test_a_well_formed_line_comes_back_as_written(labels, value):
    def quoted(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    inside = ",".join(f"{name}={quoted(text)}" for name, text in labels.items())
    (one,) = parse(f"{USAGE.decode()}{{{inside}}} {value!r}".encode())
    assert one.labels == labels
    assert one.value == value
