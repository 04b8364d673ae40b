"""Which rule builds the layers of which family."""

from collections.abc import Callable

from kvscale.core.model.architectures.row import Architecture, Family
from kvscale.core.model.fields import Fields
from kvscale.core.model.parts import Plan
from kvscale.core.model.weights.plans.common import common_plan
from kvscale.core.model.weights.plans.deepseek_v4 import deepseek_v4_plan
from kvscale.core.model.weights.plans.gemma import gemma3n_plan, gemma4_plan
from kvscale.core.model.weights.plans.hybrid import (
    kimi_linear_plan,
    lfm2_plan,
    minimax_text_plan,
    qwen_next_plan,
)
from kvscale.core.model.weights.plans.mamba import (
    bamba_plan,
    falcon_h1_plan,
    granite_hybrid_plan,
    nemotron_h_plan,
)
from kvscale.core.model.weights.plans.state_space import jamba_plan, mamba1_plan, mamba2_plan
from kvscale.core.model.weights.plans.varied import (
    decilm_plan,
    gpt_oss_plan,
    llama4_plan,
    mimo_v2_plan,
    minimax_m3_plan,
    step_plan,
)
from kvscale.core.model.weights.plans.whisper import whisper_plan
from kvscale.core.model.weights.plans.zamba import zamba2_plan
from kvscale.core.model.weights.sizes import Dimensions

PLANS: dict[Family, Callable[[Fields, Dimensions, Architecture], Plan]] = {
    Family.COMMON: common_plan,
    Family.GPT_OSS: gpt_oss_plan,
    Family.QWEN_NEXT: qwen_next_plan,
    Family.GEMMA_4: gemma4_plan,
    Family.GEMMA_3N: gemma3n_plan,
    Family.LLAMA_4: llama4_plan,
    Family.MIMO_V2: mimo_v2_plan,
    Family.MINIMAX_M3: minimax_m3_plan,
    Family.STEP_3P5: step_plan,
    Family.DECILM: decilm_plan,
    Family.NEMOTRON_H: nemotron_h_plan,
    Family.DEEPSEEK_V4: deepseek_v4_plan,
    Family.GRANITE_HYBRID: granite_hybrid_plan,
    Family.JAMBA: jamba_plan,
    Family.BAMBA: bamba_plan,
    Family.FALCON_H1: falcon_h1_plan,
    Family.MAMBA_1: mamba1_plan,
    Family.MAMBA_2: mamba2_plan,
    Family.ZAMBA_2: zamba2_plan,
    Family.LFM_2: lfm2_plan,
    Family.KIMI_LINEAR: kimi_linear_plan,
    Family.MINIMAX_TEXT: minimax_text_plan,
    Family.WHISPER: whisper_plan,
}
