"""A trace is read under the names that public traces use, and refused by line where it is none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.adapters.length_trace import read_lengths
from kvscale.core.refusal import Refusal
from kvscale.core.traffic.requests import Requests

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation.csv"


def read(text: str) -> Requests:
    found = read_lengths(text)
    assert isinstance(found, Requests), found
    return found


@pytest.mark.parametrize(
    "text",
    [
        "prompt,output\n374,44\n",
        "prompt_tokens,output_tokens\n374,44\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,374,44,418,x\n",
        "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n",
        "t_s,prompt_tokens,output_tokens\r\n6.0,374.0,44\r\n",
        '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [0, 1]}\n',
        '\n{"prompt_len": 374, "output_len": 44}\n\n',
        '{"prompt_tokens": 374, "completion_tokens": 44}',
    ],
)
def test_the_names_of_public_traces_are_known(text: str) -> None:
    found = read(text)
    assert (found.prompts, found.outputs, found.count) == ((374.0,), (44.0,), 1)


def test_a_real_trace_is_read() -> None:
    found = read(TRACE.read_text())
    assert found.count == 1504
    assert len(found.weights) < found.count


def test_a_request_without_output_was_there_all_the_same() -> None:
    assert read("prompt,output\n10,0\n").outputs == (1.0,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no request"),
        ("prompt,output\n", "holds no request"),
        ("a,b\n1,2\n", "no column is known as the prompt length (it has: a, b)"),
        ("prompt,b\n1,2\n", "no column is known as the output length"),
        ("prompt,output\n1,2\n3\n", "line 3: output is missing"),
        ("prompt,output\n1,two\n", "line 2: output is 'two'"),
        ("prompt,output\n1,-2\n", "line 2: output is '-2'"),
        ("prompt,output\n1,2.5\n", "line 2: output is '2.5'"),
        ("prompt,output\n1,nan\n", "line 2: output is 'nan'"),
        ("prompt,output\n1,inf\n", "line 2: output is 'inf'"),
        ('{"prompt": 1, "output": 2}\n{"prompt": 1}\n', "line 2: output is missing"),
        ('{"prompt": true, "output": 2}\n', "line 1: prompt is 'True'"),
        ('{"prompt": 1, "output": 2}\nno\n', "line 2 is not JSON"),
        ('{"prompt": 1, "output": 2}\n[1]\n', "line 2 holds no JSON object"),
        ('{"prompt": "hello", "output": "world"}\n', "count them with the model's tokenizer"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_line(text: str, told: str) -> None:
    found = read_lengths(text)
    assert isinstance(found, Refusal)
    assert (found.reason, found.field) == ("TraceInvalid", "--trace")
    assert told in found.message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(read_lengths(text), Requests | Refusal)
    assert isinstance(read_lengths("prompt,output\n" + text), Requests | Refusal)
    assert isinstance(read_lengths("{" + text), Requests | Refusal)
