"""SGLang's rules, by version.

| rule | value | from | file of sglang/srt |
|---|---|---|---|
| default fraction | by number of ranks | 0.4.0 | server_args.py |
| default fraction | MiB kept by device and ranks | 0.4.8 | server_args.py |
| default fraction | MiB kept by chunk, graphs, ranks | 0.5.3 | server_args.py |
| prefill graphs kept for | no, then yes | 0.5.10 | server_args.py |
| speculation kept for | 2 GiB, 4, nothing | 0.5.10, 0.5.14 | server_args.py |
| multimodal model | fraction x 0.9, x the tower's factor | 0.4.9, 0.4.10 | server_args.py |
| multimodal model | 100 MiB less for KV | 0.5.18 | kv_cache_configurator.py |
| device below 35 GiB | graphs to 16, 24, 48 (chunk 4096) | 0.5.3, 0.5.5, 0.5.20 | memory_hook.py |
| V priced | as wide as K, then by its width | 0.5.7 | model_runner_kv_cache_mixin.py |
| indexer priced | on every layer | 0.5.4 | model_runner.py |
| indexer priced | on layers that own one | 0.5.18 | pool_configurator.py |
| fp8 latent of sparse attention | 656 bytes | 0.5.17 | pool_configurator.py |
| layers of a draft model priced | no, then yes | 0.5.14 | pool_configurator.py |
| window pool | any model but a few | 0.4.10 | model_runner.py |
| window pool | models on a list | 0.5.8 | model_config.py |
| states: a share of the budget | | 0.5.4 | model_runner.py |
| states: drafts shared out with them | | 0.5.13 | kv_cache_configurator.py |
| running requests at most tokens / 2 | | 0.5.10 | kv_cache_configurator.py |

Every release from 0.4.0 to 0.5.23 was read for these rows. A version in between takes the rule of
the older row.
"""

from dataclasses import dataclass

from kvscale.core.engines.versions import LAST_PATCH, Version, parse_version, version_text
from kvscale.core.refusal import Refusal

OLDEST: Version = (0, 4, 0)
NEWEST: Version = (0, 5, 23)


@dataclass(frozen=True, slots=True)
class SGLangRules:
    """The rules of one version.

    Attributes:
        version: (0, 5, 9).
        known: whether the version was read; an unknown one takes the nearest rule with a wider
            band.
        assumptions: what was assumed about the version.
    """

    version: Version
    known: bool = True
    assumptions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The version for a person."""
        return version_text(self.version)

    @property
    def prefill_graphs(self) -> bool:
        """Whether prefill is captured in CUDA graphs by default."""
        return self.version >= (0, 5, 10)

    @property
    def value_width_priced(self) -> bool:
        """Whether V is priced by its own width; before, as wide as K."""
        return self.version >= (0, 5, 7)

    @property
    def indexer_on_owners(self) -> bool:
        """Whether layers that share another one's index hold none."""
        return self.version >= (0, 5, 18)

    @property
    def draft_priced(self) -> bool:
        """Whether the KV layers of a draft model are priced; before, they lived in the slack."""
        return self.version >= (0, 5, 14)

    @property
    def state_padding(self) -> int:
        """State slots that are allocated beside those that are counted."""
        return 1 if self.version >= (0, 5, 17) else 0

    @property
    def multimodal_reserve_mib(self) -> int:
        """MiB of the budget kept for the embedding cache of a multimodal model."""
        return 100 if self.version >= (0, 5, 18) else 0

    def slots_per_request(self, strategy: str, *, radix: bool, overlap: bool) -> int:
        """State slots that one running request may take.

        Source: `_calculate_mamba_ratio`, 0.5.10 to 0.5.23; mamba_radix_cache_strategy became
        extra_buffer by default in 0.5.14 (server_args.py).
        """
        if not radix:
            return 1
        if strategy == "auto":
            strategy = "extra_buffer" if self.version >= (0, 5, 14) else "no_buffer"
        if strategy == "extra_buffer":
            return 5 if overlap else 4
        return 4 if strategy == "extra_buffer_lazy" else 3

    def window_pool(self, architecture: str) -> bool:
        """Whether layers with a sliding window have a pool of their own."""
        if self.version < (0, 4, 10):
            return False
        if self.version < (0, 5, 8):
            held_back = ("Gemma2", "Gemma3", "Llama4", "Olmo2")
            gpt_oss = architecture == "GptOssForCausalLM"
            return not architecture.startswith(held_back) and not gpt_oss
        since = _WINDOW_POOLS.get(architecture)
        return since is not None and self.version >= since


_WINDOW_POOLS: dict[str, Version] = {
    "GptOssForCausalLM": (0, 5, 8),
    "Llama4ForConditionalGeneration": (0, 5, 8),
    "MiMoV2FlashForCausalLM": (0, 5, 8),
    "Step3p5ForCausalLM": (0, 5, 9),
    "Gemma4ForCausalLM": (0, 5, 11),
    "Gemma4ForConditionalGeneration": (0, 5, 11),
    "MiMoV2ForCausalLM": (0, 5, 11),
    "LagunaForCausalLM": (0, 5, 12),
    "Gemma4UnifiedForConditionalGeneration": (0, 5, 13),
    "Step3p7ForConditionalGeneration": (0, 5, 13),
    "UnlimitedOCRForCausalLM": (0, 5, 15),
    "MellumForCausalLM": (0, 5, 16),
    "InklingForConditionalGeneration": (0, 5, 16),
    "MuseGlimmerForCausalLM": (0, 5, 18),
    "MuseGlimmerForConditionalGeneration": (0, 5, 18),
    "DiffusionGemmaForBlockDiffusion": (0, 5, 21),
    "EmbeddingGemma2Model": (0, 5, 22),
    "BeamForCausalLM": (0, 5, 23),
}
"""Architectures with a window pool, by the version that began it (`is_hybrid_swa_model`)."""


def sglang_rules(version: str | None) -> SGLangRules | Refusal:
    """The rules of a version; the newest ones where it is not known.

    Args:
        version: as an image tag or the user states it; None: not known.

    Returns:
        The rules, or a Refusal for versions before 0.4.
    """
    newest = version_text(NEWEST)
    parsed = parse_version(version) if version is not None else None
    if parsed is None:
        what = "is not known" if version is None else f"{version[:40]!r} is no release"
        return SGLangRules(
            NEWEST,
            known=False,
            assumptions=(f"SGLang's version {what}: the rules of {newest} apply",),
        )
    if parsed < OLDEST:
        return Refusal(
            "UnsupportedEngineVersion",
            "engine.version",
            f"engine.version is {version!r}; SGLang before 0.4 budgets memory by a rule that is "
            "not known here. Use a newer version, or correct engine.version",
        )
    if parsed[:2] == NEWEST[:2] and parsed[2] == LAST_PATCH:
        return SGLangRules(
            NEWEST, assumptions=(f"SGLang {version} names no patch: the rules of {newest} apply",)
        )
    if parsed > NEWEST:
        return SGLangRules(
            NEWEST,
            known=False,
            assumptions=(f"SGLang {version} is newer than {newest}, whose rules apply",),
        )
    return SGLangRules(parsed)
