"""Speculation that vLLM does not start with (vllm v0.32.0 config/speculative.py)."""

from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.start import Start
from kvscale.core.refusal import Refusal

PREDICTION = "mtp"
"""Methods that end so draft with layers of the model's own checkpoint ("mtp", "deepseek_mtp")."""

STANDALONE = "draft_model"
"""A second model that proposes tokens."""

EAGLE3 = "eagle3"
EAGLE = ("eagle", EAGLE3)
"""Methods that draft with a head of one layer, a checkpoint of its own."""

_WITHOUT_MEMORY = ("ngram", "suffix")
"""Methods that draft from the text so far, on the CPU."""

_COUNT_THEMSELVES = ("suffix", "custom_class", "extract_hidden_states")
"""Methods that need no number of tokens."""

_NAMED = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
"""What in a drafter's name tells its method, in vLLM's order."""

METHODS = frozenset({
    "ngram", "ngram_gpu", "medusa", "mlp_speculator", "draft_model", "suffix", "custom_class",
    "eagle", "eagle3", "extract_hidden_states", "dflash", "dspark", "mtp", "deepseek_mtp",
    "dots3_note_mtp", "mimo_mtp", "mimo_v2_mtp", "glm4_moe_mtp", "glm4_moe_lite_mtp",
    "glm_ocr_mtp", "ernie_mtp", "nemotron_h_mtp", "exaone_moe_mtp", "exaone4_5_mtp",
    "qwen3_next_mtp", "qwen4_exp_mtp", "qwen3_5_mtp", "longcat_flash_mtp",
    "bailing_hybrid_v3_mtp", "minimax_m3_mtp", "bailing_hybrid_mtp", "kimi_k3_mtp",
    "pangu_ultra_moe_mtp", "step3p5_mtp", "hy_v3_mtp", "hy_v4_mtp", "gemma4_mtp", "inkling_mtp",
    "glm5_next_mtp",
})  # fmt: skip
"""Names of `SpeculativeMethod`; not every release knows each."""


def method_of(stated: str, model: str) -> str:
    """The method, where it is left to the drafter's name; "" where nothing drafts."""
    if stated not in {"", STANDALONE} or not model:
        return stated
    if model in {"ngram", "[ngram]"}:
        return "ngram"
    name = model.lower()
    return next((method for part, method in _NAMED if part in name), STANDALONE)


def drafter_note(engine: EngineConfig, *, counted: bool) -> str:
    """What an answer has to say of the drafter's memory; "" where there is none.

    Args:
        engine: as started.
        counted: the drafter is a model whose shape is known.
    """
    method = engine.speculative_method
    if method in EAGLE:
        return f"the {method} head is counted as one layer like the model's"
    if not method or method.endswith(PREDICTION) or method in _WITHOUT_MEMORY:
        return ""
    if counted:
        return f"the draft model {engine.speculative_model} is counted, by its public config"
    named = f" {engine.speculative_model[:80]}" if engine.speculative_model else ""
    return f"the memory of the drafter{named} ({method}) is not known and not counted"


def _speculation(message: str) -> Refusal:
    return Refusal("InvalidSpeculation", "--speculative-config", message)


def drafted_tokens(start: Start) -> Refusal | None:
    """No tokens to draft, where the method does not know how many."""
    engine = start.engine
    tokens, method = engine.speculative_tokens, engine.speculative_method
    counts_itself = not method or method.endswith(PREDICTION) or method in _COUNT_THEMSELVES
    if tokens > 0 or (tokens == 0 and counts_itself):
        return None
    what = f"is {tokens}" if tokens else "is not given"
    return _speculation(
        f"num_speculative_tokens (--speculative-tokens) {what}; it must be positive",
    )


def named_drafter(start: Start) -> Refusal | None:
    """Tokens without a method, or a draft model without a name."""
    engine = start.engine
    if engine.speculative_method == STANDALONE and not engine.speculative_model:
        what = "the method is draft_model, but no model is named"
    elif engine.speculative_tokens > 0 and not engine.speculative_method:
        what = f"{engine.speculative_tokens} speculative tokens are asked for, by no method"
    else:
        return None
    return _speculation(
        f"{what}: state method and model (--speculative-method, --speculative-model)",
    )


def known_method(start: Start) -> Refusal | None:
    """A name that no release has."""
    name = start.engine.speculative_method
    if not name or name in METHODS:
        return None
    return _speculation(
        f"the method of speculation is {name[:40]!r}, which vLLM does not have; use mtp, eagle, "
        "eagle3, ngram, suffix, medusa, mlp_speculator or draft_model",
    )


def prediction_layers(start: Start) -> Refusal | None:
    """Multi-token prediction by a model without layers for it, or by a number that they cannot.

    From a config by hand (no architecture) nothing is known of them.
    """
    if not start.engine.speculative_method.endswith(PREDICTION) or not start.shape.architecture:
        return None
    layers, tokens = start.shape.draft_layers, start.engine.speculative_tokens
    if not layers:
        return _speculation(
            f"the method of speculation is {start.engine.speculative_method}, but "
            f"{start.shape.name or 'the model'} brings no layers for multi-token prediction; use "
            "eagle3 with a head of its own, or ngram",
        )
    if tokens > layers and tokens % layers:
        return _speculation(
            f"num_speculative_tokens is {tokens}; the model's {layers} prediction layers take a "
            "multiple of them",
        )
    return None


RULES = (known_method, named_drafter, drafted_tokens, prediction_layers)
