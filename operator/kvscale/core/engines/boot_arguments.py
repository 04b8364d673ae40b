"""Settings as an engine prints them: `{'name': value}`, `name=value` or JSON, from one log line.

vLLM 0.6 to 0.8 prints every argument (`args: Namespace(...)`), 0.9 to 0.33 those that are not the
default (`non-default args: {...}`, entrypoints/serve/utils/api_utils.py), and all of them a summary
without the memory fraction (`Initializing a V1 LLM engine (v0.32.0) with config: model='...', ...`,
config/vllm.py). SGLang prints every argument (`server_args=ServerArgs(...)`).
"""

import re

from kvscale.core.engines import boot_patterns as say

MOST_ARGUMENTS = 600

_PAIR = re.compile(
    r"\b(\w{1,60})\\?['\"]?(?:: ?|=)"
    r"(\\?'[^']{0,500}'|\\?\"[^\"]{0,500}\"|-?\d{1,15}(?:\.\d{1,15})?|[A-Za-z_][\w.\-]{0,80})"
)
_SHARE = re.compile(r"\d(?:\.\d{0,15})?|\.\d{1,15}")
_OPEN, _CLOSE = "([{", ")]}"


def settings(text: str) -> tuple[dict[str, str], bool]:
    """The pairs of a printed object, and whether it was printed to its end.

    What stands in inner brackets belongs to something else: a draft model has a length and ranks
    of its own.

    Args:
        text: what follows the opening bracket.
    """
    flat, closed = _outermost(text)
    found: dict[str, str] = {}
    for match in _PAIR.finditer(flat):
        found.setdefault(match[1], match[2].strip("\\'\""))
        if len(found) == MOST_ARGUMENTS:
            break
    return found, closed


def fraction_milli(text: str) -> int | None:
    """A printed fraction in thousandths; None if it is none."""
    return say.milli(text) if _SHARE.fullmatch(text) else None


def _outermost(text: str) -> tuple[str, bool]:
    kept: list[str] = []
    depth, quote = 0, ""
    for char in text:
        if not quote and char in _CLOSE:
            depth -= 1
            if depth < 0:
                return "".join(kept), True
            continue
        if depth == 0 and (quote or char not in _OPEN):
            kept.append(char)
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
    return "".join(kept), False
