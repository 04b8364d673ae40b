"""How vLLM shares out its blocks, by version: block tables, tokens in flight, recurrent states.

| rule | from | source |
|---|---|---|
| windows beside full attention have tables of their own, before kept whole | 0.9.1 | v1/core |
| models with recurrent states run on this engine, before on V0 | 0.10.0 | v1/core |
| local chunks kept whole by default | 0.10.1 to 0.13 | envs.py, ALLOW_CHUNKED_LOCAL... |
| full layers with unlike pages share a table | 0.11.0 | v1/kv_cache_interface.py |
| unlike pages are made equal by longer blocks, before refused | 0.12.0 | v1/core |
| ... and by padding where they do not divide | 0.24.0 | v1/core |
| tables take the size of the larger kind up to 1.25, then 1.5 times | 0.12.0, 0.18.0 | v1/core |
| windows hold the tokens of all steps under way, before of one | 0.26.0 | kv_cache_interface.py |
| prefixes of models with states are cached by default | 0.26.0 | config/model.py |
| ... with Mamba states in every block | 0.26 and 0.27 | model_executor/models/config.py |
| one more block for the checkpoint of a Mamba2 state | 0.32.0 | mamba/mamba_mixer2.py |
| ... of a gated delta net, from compute capability 9.0 | 0.33.0 | gdn/qwen_gdn_linear_attn.py |

Each was found by reading releases 0.8.0 to 0.33.0 in turn; steps under way are two with
asynchronous scheduling, which 0.14 made the default (config/vllm.py, max_concurrent_batches).
"""

from dataclasses import dataclass
from functools import lru_cache

from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.engines.cache_format import Scheduling
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.versions import Version
from kvscale.core.engines.vllm.rules import Rules
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind, ModelShape

GATED_DELTA_GRID = 64
"""Tokens between two checkpoints of a gated delta net (gdn_attn.py, 0.33.0)."""

_SYNCHRONOUS = frozenset({"ngram", "suffix", "medusa", "mlp_speculator"})
"""Drafters with which steps do not overlap (config/vllm.py, `async_scheduling`)."""

_EVERY_BLOCK = frozenset({LayerKind.MAMBA1, LayerKind.MAMBA2})
"""States that could be kept at every block (SupportsMambaPrefixCaching, 0.26.0)."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """How block tables are formed.

    Attributes:
        keeps_windows_whole: windows and chunks beside full attention are full attention here.
        keeps_chunks_whole: chunks alone are.
        deal_limit: tables take the size of the larger kind where it has less than this many times
            the layers of the smaller.
        stretches: unlike pages are made equal by longer blocks.
        pads: and by padding.
    """

    keeps_windows_whole: bool
    keeps_chunks_whole: bool
    deal_limit: float
    stretches: bool
    pads: bool


def table_rules(rules: Rules, engine: EngineConfig) -> TableRules:
    """The rules of that version, with what `--disable-hybrid-kv-cache-manager` changes."""
    return _table_rules(rules.version, hybrid_manager=engine.hybrid_kv_cache_manager)


@lru_cache(maxsize=256)
def _table_rules(version: Version, *, hybrid_manager: bool) -> TableRules:
    limit = 1.5 if version >= (0, 18, 0) else 1.25 if version >= (0, 12, 0) else 1.0
    return TableRules(
        keeps_windows_whole=not hybrid_manager or version < (0, 9, 1),
        keeps_chunks_whole=(0, 10, 1) <= version < (0, 14, 0),
        deal_limit=limit,
        stretches=version >= (0, 12, 0),
        pads=version >= (0, 24, 0),
    )


def keeps_prefixes(rules: Rules, shape: ModelShape, engine: EngineConfig) -> bool:
    """Whether the engine caches prefixes: as it was told, or by its default for the layers."""
    if engine.prefix_caching is not None:
        return engine.prefix_caching
    states = [group.kind.recurrent for group in shape.layer_groups]
    if any(states):
        # A model of states alone has it off still (config/model.py, is_prefix_caching_supported).
        return rules.version >= (0, 26, 0) and not all(states)
    return True


@lru_cache(maxsize=256)
def _checkpoints(version: Version, capability: str) -> frozenset[LayerKind]:
    """Kinds whose states leave a checkpoint behind while a prompt is computed."""
    kinds = set()
    if version >= (0, 32, 0):
        kinds.add(LayerKind.MAMBA2)
    major = compute_major(capability)
    if version >= (0, 33, 0) and major in {"", "9", "10", "12"}:
        kinds.add(LayerKind.GATED_DELTA_NET)
    return frozenset(kinds)


def state_grid(rules: Rules, shape: ModelShape, engine: EngineConfig, capability: str) -> int:
    """Tokens of which a block beside states must be a multiple, for their checkpoints; 1: any."""
    kinds = {group.kind for group in shape.layer_groups if group.kind.recurrent}
    if LayerKind.GATED_DELTA_NET not in kinds or not keeps_prefixes(rules, shape, engine):
        return 1
    return GATED_DELTA_GRID if kinds <= _checkpoints(rules.version, capability) else 1


def scheduling(
    rules: Rules,
    shape: ModelShape,
    engine: EngineConfig,
    max_num_batched_tokens: int,
    capability: str,
) -> Scheduling:
    """What a sequence's bounded layers hold besides their bound.

    Args:
        rules: of the version.
        shape: the model.
        engine: as it was started.
        max_num_batched_tokens: resolved.
        capability: compute capability of the device ("9.0"); "" if not known.

    Raises:
        Refused: the version runs such a model on an engine that is not known here.
    """
    kinds = {group.kind for group in shape.layer_groups if group.kind.recurrent}
    if kinds and rules.version < (0, 10, 0):
        raise Refused(
            "UnsupportedEngineVersion",
            "engine.version",
            f"engine.version is {rules.label}; vLLM before 0.10 runs models with recurrent states "
            "on an engine whose memory rule is not known here. Use a newer version",
        )
    steps = _steps_under_way(rules, engine)
    drafts = engine.speculative_tokens
    prefixes = keeps_prefixes(rules, shape, engine)
    everywhere = prefixes and rules.version < (0, 28, 0) and bool(kinds) and kinds <= _EVERY_BLOCK
    return Scheduling(
        in_flight=max_num_batched_tokens * (steps if rules.version >= (0, 26, 0) else 1),
        decoding=steps * (1 + drafts),
        state_blocks=None if everywhere else 1 + prefixes + drafts,
        checkpoints=_checkpoints(rules.version, capability) if prefixes else frozenset(),
        encoder_tokens=max_num_batched_tokens,
    )


def _steps_under_way(rules: Rules, engine: EngineConfig) -> int:
    """Batches that are scheduled and not settled: one per stage, and one more asynchronously."""
    stages = engine.pipeline_parallel
    if rules.version < (0, 14, 0) or engine.speculative_method in _SYNCHRONOUS:
        return stages
    # Stages and asynchronous steps together take the second runner.
    return stages if stages > 1 and rules.version < (0, 29, 0) else stages + 1
