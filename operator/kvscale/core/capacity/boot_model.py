"""Whether the model that a log names is the one that is asked about.

A name decides only where it is known: a local path, a mirror or a fine-tune has the shape of a
model of another name, and then the weights in the log decide. Fine-tunes keep the family in their
name ("Hermes-3-Llama-3.1-8B"), so names of two families are two models.
"""

import re
from functools import lru_cache

from kvscale.core.engines.boot_log import BootLog
from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.presets import PRESET_NAMES, preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

_LIKE_PERCENT = 15
"""Parameters of one model under two names differ by less: added words, a vision tower."""

_NO_FAMILY = frozenset({"gpt", "meta", "nvidia", "step"})
"""First words of names that others use for something else."""

_CACHED = re.compile(r"models--(\w[\w.\-]*?)--([\w.\-]+)")
_WORDS = re.compile(r"[a-z]+")
_OWN_FORMAT = frozenset(
    {"MistralForCausalLM", "MixtralForCausalLM", "Mistral3ForConditionalGeneration",
     "PixtralForConditionalGeneration"}
)  # fmt: skip
"""Mistral's own checkpoint format has no architecture in it, so vLLM names one of these (v0.32.0
transformers_utils/configs/mistral.py)."""


def other_model(boot: BootLog, shape: ModelShape) -> str:
    """How the log says that it is of another model; "" if nothing in it says so.

    Args:
        boot: the start.
        shape: the model that is asked about.
    """
    theirs, ours = hub_name(boot.model), hub_name(shape.name)
    if theirs and _bare(theirs) == _bare(ours):
        return ""
    logged, asked = boot.architecture, shape.architecture
    if _clash(logged, asked):
        return _names(f"{theirs or 'a model'} ({logged})", f"{ours} ({asked})")
    if not theirs:
        return ""
    known = _known(theirs)
    if known is not None:
        return "" if _alike(known, shape) else _names(theirs, ours)
    families = _families(theirs), _families(ours)
    return _names(theirs, ours) if all(families) and families[0].isdisjoint(families[1]) else ""


def same_name(boot: BootLog, shape: ModelShape) -> bool:
    """Whether the log names the model as it is named here, or names none."""
    return not boot.model or _bare(hub_name(boot.model)) == _bare(hub_name(shape.name))


def hub_name(name: str) -> str:
    """The name on the Hub that a path of its cache holds; other names as they are.

    Args:
        name: as an engine prints it.
    """
    found = _CACHED.search(name)
    return f"{found[1]}/{found[2]}" if found else name.strip().rstrip("/")


def _names(theirs: str, ours: str) -> str:
    return f"the log is of {theirs[:160]}, asked is {ours[:160]}; they must be one model"


def _bare(name: str) -> str:
    return name.replace("--", "/").rpartition("/")[2].lower()


def _alike(one: ModelShape, other: ModelShape) -> bool:
    if _clash(one.architecture, other.architecture):
        return False
    frames = {(shape.hidden_size, shape.layers, shape.attention_heads) for shape in (one, other)}
    fewer, more = sorted((one.parameters, other.parameters))
    return len(frames) == 1 and (more - fewer) * 100 <= _LIKE_PERCENT * more


def _clash(one: str, other: str) -> bool:
    both = {one, other}
    return len(both) > 1 and both <= ARCHITECTURES.keys() and not both <= _OWN_FORMAT


def _known(name: str) -> ModelShape | None:
    found = preset(_by_bare_name().get(_bare(name), name))
    return None if isinstance(found, Refusal) else found


@lru_cache(maxsize=1)
def _by_bare_name() -> dict[str, str]:
    return {_bare(name): name for name in PRESET_NAMES}


@lru_cache(maxsize=1)
def _all_families() -> frozenset[str]:
    heads = (_WORDS.match(_bare(name)) for name in PRESET_NAMES)
    return frozenset(head[0] for head in heads if head) - _NO_FAMILY


def _families(name: str) -> frozenset[str]:
    return _all_families() & frozenset(_WORDS.findall(_bare(name).replace("devstral", "mistral")))
