"""Settings for what a model does not have: experts, tokens, stages, or one kind of cache."""

from kvscale.core.engines.vllm.start import Start
from kvscale.core.refusal import Refusal

WITHOUT_STAGES = frozenset({
    "Gemma3nForConditionalGeneration", "Mamba2ForCausalLM", "WhisperForConditionalGeneration",
    "Zamba2ForCausalLM",
})  # fmt: skip
"""Architectures whose module has no pipeline stages (vllm v0.32.0: no SupportsPP)."""


def whole_experts(start: Start) -> Refusal | None:
    """Expert parallelism of a model without experts.

    vllm v0.32.0 config/model.py, _verify_with_expert_parallelism.
    """
    shape = start.shape
    if not start.engine.expert_parallel or not shape.architecture:
        return None
    if any(group.experts for group in shape.weight_groups):
        return None
    return Refusal(
        "InvalidParallelism",
        "--enable-expert-parallel",
        "--enable-expert-parallel is set, but the model has no experts: leave it out",
    )


def context_over_states(start: Start) -> Refusal | None:
    """Tokens to share out where no layer keeps any."""
    if start.engine.decode_context_parallel == 1 or not start.kinds:
        return None
    if any(not kind.recurrent for kind in start.kinds):
        return None
    return Refusal(
        "InvalidParallelism",
        "--decode-context-parallel-size",
        f"--decode-context-parallel-size is {start.engine.decode_context_parallel}; the model "
        "keeps states alone, there are no tokens to share out: leave it out",
    )


def one_manager(start: Start) -> Refusal | None:
    """Attention beside states under one manager, which cannot keep both alike.

    vllm v0.32.0 v1/core/kv_cache_utils.py, unify_hybrid_kv_cache_specs.
    """
    recurrent = [kind.recurrent for kind in start.kinds]
    if start.engine.hybrid_kv_cache_manager or not any(recurrent) or all(recurrent):
        return None
    return Refusal(
        "UnsupportedLayerMix",
        "--disable-hybrid-kv-cache-manager",
        "--disable-hybrid-kv-cache-manager is set, but the model has states beside attention, "
        "which one manager cannot keep: leave it out",
    )


def staged(start: Start) -> Refusal | None:
    """Pipeline stages of a model whose module has none (vllm v0.32.0: no SupportsPP)."""
    if start.engine.pipeline_parallel == 1 or start.shape.architecture not in WITHOUT_STAGES:
        return None
    return Refusal(
        "InvalidParallelism",
        "--pipeline-parallel-size",
        f"--pipeline-parallel-size is {start.engine.pipeline_parallel}; vLLM has no pipeline "
        f"stages for {start.shape.architecture}: use --tensor-parallel-size",
    )


RULES = (whole_experts, context_over_states, staged, one_manager)
