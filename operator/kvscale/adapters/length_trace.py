"""Request lengths from a file: CSV with a header, or JSON lines.

Public traces name the same two numbers in many ways. Case, and everything but letters and digits,
is not looked at. Among them:

| source | prompt | output |
|---|---|---|
| Azure LLM inference (AzurePublicDataset) | ContextTokens | GeneratedTokens |
| Mooncake (FAST25-release/traces) | input_length | output_length |
| vLLM benchmarks, ShareGPT after tokenisation | prompt_len | output_len |
| BurstGPT | Request tokens | Response tokens |
| Vidur | num_prefill_tokens | num_decode_tokens |
| OpenAI usage records | prompt_tokens | completion_tokens |
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvscale.core.refusal import Refusal
from kvscale.core.traffic.requests import Requests, measured

PROMPT_NAMES = (
    "prompttokens",
    "inputtokens",
    "contexttokens",
    "requesttokens",
    "numprefilltokens",
    "promptlength",
    "inputlength",
    "promptlen",
    "inputlen",
    "prompt",
    "input",
)
"""Normalised names, the most telling first."""

OUTPUT_NAMES = (
    "outputtokens",
    "generatedtokens",
    "completiontokens",
    "responsetokens",
    "numdecodetokens",
    "outputlength",
    "outputlen",
    "completionlength",
    "output",
    "completion",
)

LONGEST_REQUEST = 1_000_000_000
"""Tokens beyond which a number is no length."""

_LEFT_OUT = re.compile(r"[^a-z0-9]")


def read_lengths(text: str) -> Requests | Refusal:
    """The requests in a trace, prompt and output together.

    Args:
        text: of the file: JSON lines if it starts with a brace, else CSV with a header.

    Returns:
        Refusal(TraceInvalid) that names the line and the mend; its field is "--trace".
    """
    rows = _json_rows(text) if text.lstrip()[:1] == "{" else _csv_rows(text)
    pairs = []
    names: tuple[str, str] | None = None
    try:
        for line, row in rows:
            names = names or _names(row)
            pairs.append((_tokens(row, names[0], line), _tokens(row, names[1], line)))
    except _LineError as error:
        return Refusal("TraceInvalid", "--trace", str(error))
    found = measured(pairs)
    if found is None:
        return Refusal("TraceInvalid", "--trace", "it holds no request: name another file")
    return found


class _LineError(Exception):
    """A line that is no request; the message names it and the mend."""


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _LineError(f"line {number} is not JSON: write one object a line") from error
        if not isinstance(row, dict):
            raise _LineError(f"line {number} holds no JSON object: write one object a line")
        yield number, row


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv.DictReader(io.StringIO(text))
    try:
        for row in rows:
            yield rows.line_num, {name: value for name, value in row.items() if name is not None}
    except csv.Error as error:
        raise _LineError(f"line {rows.line_num} is not CSV: {error}") from error


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    """The columns of prompt and output, by what the first row calls them."""
    known = {_LEFT_OUT.sub("", name.lower()): name for name in row}
    prompt = next((known[name] for name in PROMPT_NAMES if name in known), None)
    output = next((known[name] for name in OUTPUT_NAMES if name in known), None)
    if prompt is None or output is None:
        lacking = "prompt" if prompt is None else "output"
        held = ", ".join(name[:40] for name in list(row)[:8])
        raise _LineError(
            f"no column is known as the {lacking} length (it has: {held}): name the columns "
            "prompt_tokens and output_tokens"
        )
    return prompt, output


def _tokens(row: Mapping[str, Any], name: str, line: int) -> int:
    value = row.get(name)
    try:
        tokens = -1.0 if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        tokens = -1.0
    if not 0 <= tokens <= LONGEST_REQUEST or tokens != int(tokens):
        shown = "missing" if value is None else repr(str(value)[:40])
        raise _LineError(
            f"line {line}: {name[:40]} is {shown}, which is no whole number of tokens: count them "
            "with the model's tokenizer, or leave the line out"
        )
    return int(tokens)
