"""The trace of an SGLang capacity: every step that a stranger needs to find the tokens by hand."""

import math
from dataclasses import dataclass

from kvscale.core.capacity.placement import Stage, weights_step
from kvscale.core.capacity.pools import Pool
from kvscale.core.capacity.sequence_formula import pool_formula
from kvscale.core.capacity.sglang.cells import Cells
from kvscale.core.capacity.sglang.settings import PPM, SGLangSettings
from kvscale.core.capacity.sglang.states import StatePool
from kvscale.core.devices.device import Device
from kvscale.core.engines.sglang.memory import Load
from kvscale.core.trace import Inputs, Step, Trace
from kvscale.core.values import Band

_POOLS = "sglang 0.5.23 srt/model_executor/pool_configurator.py"
_PROFILE = "sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py _profile_available_bytes"


@dataclass(frozen=True, slots=True)
class Account:
    """The numbers of the stage with least room; see `core.capacity.sglang.engine`.

    Attributes:
        device: one of those that the server runs on.
        stage: the layers of that pipeline stage.
        cells: what a token, and a state, costs one of its ranks.
        load: bytes free before the load, and taken by it; None where the KV memory is given.
        budget: bytes for states and KV.
        states: the pool of states within the expected budget; None for none.
        kv: bytes for KV alone.
        cell_milli: thousandths of a byte that a token of the counted pool costs in all pools.
        ratio_ppm: tokens of the window pool per token of the full one, in millionths.
        tokens: of the counted pool; the least over the stages.
        pages_per_sequence: of one request of `longest` tokens.
        reserve: bytes kept back for images and sound.
        window_pool: bytes of a pool of windows that is sized by requests; 0: by its share.
        weights: bytes of each part of the model, on one rank.
        state_padding: slots of the pool of states that no request is given.
        pools: the server's pools, for what a sequence takes of each.
        longest: tokens of the longest request that the server takes.
    """

    device: Device
    stage: Stage
    cells: Cells
    load: Load | None
    budget: Band
    states: StatePool | None
    kv: Band
    cell_milli: int
    ratio_ppm: int
    tokens: Band
    pages_per_sequence: int
    reserve: int
    window_pool: int
    weights: dict[str, int]
    state_padding: int
    pools: tuple[Pool, ...]
    longest: int


def trace(settings: SGLangSettings, account: Account) -> Trace:
    """From the device's memory to tokens."""
    return (*_budget_steps(settings, account), *_token_steps(settings, account))


def _budget_steps(settings: SGLangSettings, account: Account) -> Trace:
    weights = weights_step(account.weights)
    total = Step(
        "cudaTotalBytes",
        account.device.memory_bytes,
        "bytes",
        "total memory of the device, as the CUDA runtime reports it",
        (("product", account.device.product),),
        account.device.evidence,
    )
    if account.load is None:
        given = Step("kvMemoryBytes", account.kv.expected, "bytes", "as given; no estimate")
        return weights, total, *_state_steps(account), given
    free, beside = account.load.free_before, account.load.beside
    reserve = (("multimodalReserveBytes", account.reserve),) if account.reserve else ()
    fraction = _fraction_step(settings)
    steps: Trace = (
        weights,
        total,
        Step(
            "freeBeforeLoadBytes",
            free.expected,
            "bytes",
            "cudaTotalBytes - takenBeforeBytes; CUDA context and communicators",
            (
                ("takenBeforeBytes", account.device.memory_bytes - free.expected),
                ("low", free.low),
                ("high", free.high),
            ),
            "fitted to boot logs: core/engines/sglang/memory.py",
        ),
        fraction,
    )
    return (
        *steps,
        *_state_steps(account),
        Step(
            "kvMemoryBytes",
            account.kv.expected,
            "bytes",
            "floor(freeBeforeLoadBytes x memFractionStatic) - weightBytesPerDevice - "
            "besideWeightsBytes"
            + (" - multimodalReserveBytes" if reserve else "")
            + (" - statePoolBytes" if account.states is not None else ""),
            (
                ("freeBeforeLoadBytes", free.expected),
                ("weightBytesPerDevice", sum(account.weights.values())),
                ("besideWeightsBytes", beside.expected),
                *reserve,
                ("low", account.kv.low),
                ("high", account.kv.high),
            ),
            _PROFILE,
        ),
    )


def _fraction_step(settings: SGLangSettings) -> Step:
    name, source = "memFractionStatic", "sglang 0.5.23 srt/arg_groups/memory_hook.py"
    value, default = settings.fraction_milli / 1000, settings.fraction
    if default is None:
        return Step(name, value, "", "--mem-fraction-static", (), source)
    # Rounded so that what is left is not less than the engine's, which is rounded down.
    inputs: Inputs = (
        ("reservedMib", math.floor(default.reserved_mib * 1000) / 1000),
        ("deviceMib", math.ceil(default.device_mib * 1000) / 1000),
    )
    left = "1 - reservedMib / deviceMib"
    if default.rounded:
        left = f"round({left}, 3)"
    if default.vision_factor != 1:
        left += " x visionFactor" if default.rounded else ""
        inputs += (("visionFactor", round(default.vision_factor, 9)),)
    if default.vision_factor != 1 or not default.rounded:
        left = f"floor({left}, 3)"
    if value == 0:
        left = f"max(0, {left})"
    return Step(name, value, "", f"{left}; the default", inputs, source)


def _state_steps(account: Account) -> Trace:
    states = account.states
    if states is None:
        return ()
    drafts = states.bytes - (states.slots + account.state_padding) * account.cells.state
    slots = "(slots + paddingSlots)" if account.state_padding else "slots"
    return (
        Step(
            "statePoolBytes",
            states.bytes,
            "bytes",
            f"{slots} x slotBytes" + (" + draftBytes; a state per draft token" if drafts else ""),
            (
                ("slots", states.slots),
                *((("paddingSlots", account.state_padding),) if account.state_padding else ()),
                ("slotBytes", account.cells.state),
                *((("draftBytes", drafts),) if drafts else ()),
            ),
            "sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py _handle_max_mamba_cache",
        ),
    )


def _cell_step(settings: SGLangSettings, account: Account) -> Step:
    """What a token of the pool of full attention costs in all pools."""
    held, drafts = account.cells, settings.options.draft_layers or 0
    window = bool(held.window and held.full and not account.window_pool)
    name, formula = ("fullBytes", "fullBytes") if held.full else ("windowBytes", "windowBytes")
    inputs: Inputs = ((name, held.full or held.window), ("kvCacheDtype", held.cache.kv.name))
    if drafts and settings.rules.draft_priced and held.attention_layers and held.full:
        formula += " + fullBytes x draftLayers // attentionLayers"
        inputs += (("draftLayers", drafts), ("attentionLayers", held.attention_layers))
    if window:
        formula += " + swaFullTokensRatio x windowBytes"
        inputs += (
            ("windowBytes", held.window),
            ("swaFullTokensRatio", account.ratio_ppm / PPM),
        )
        if account.ratio_ppm * held.window % 1000:
            formula = f"floor({formula}, 3)"
    return Step(
        "bytesPerToken",
        account.cell_milli / 1000,
        "bytes",
        f"{formula}; bytes of one token in all layers of a rank"
        + ("; the window pool is sized by the requests" if account.window_pool else ""),
        inputs,
        _POOLS,
    )


def _blocks_step(settings: SGLangSettings, account: Account) -> Step:
    most = settings.options.max_total_tokens
    memory = "kvMemoryBytes"
    inputs: Inputs = (("kvMemoryBytes", account.kv.expected),)
    if account.window_pool:
        memory = "(kvMemoryBytes - windowPoolBytes)"
        inputs += (("windowPoolBytes", account.window_pool),)
    if account.kv.expected < account.window_pool:
        memory = f"max(0, {memory})"
    tokens = f"{memory} // bytesPerToken"
    if not account.cell_milli:
        tokens, inputs = "maxModelLen", (("maxModelLen", settings.max_model_len),)
    if most is not None:
        tokens = f"min({tokens}, maxTotalTokens)"
        inputs += (("maxTotalTokens", most),)
    page = settings.page_tokens
    return Step(
        "kvBlocks",
        account.tokens.expected // page,
        "blocks",
        f"{tokens} // blockTokens; of the pool of full attention",
        (
            *inputs,
            ("blockTokens", page),
            ("pipelineStage", f"layers {account.stage.first} to {account.stage.last - 1}"),
            ("low", account.tokens.low // page),
            ("high", account.tokens.high // page),
        ),
        _POOLS,
    )


def _token_steps(settings: SGLangSettings, account: Account) -> Trace:
    page = settings.page_tokens
    per_sequence, parts = pool_formula(account.pools, page, "longestRequest")
    return (
        Step("blockTokens", page, "tokens", settings.page_reason, (), _POOLS),
        _cell_step(settings, account),
        _blocks_step(settings, account),
        Step(
            "kvCacheSizeTokens",
            account.tokens.expected,
            "tokens",
            "kvBlocks x blockTokens; sglang:max_total_num_tokens",
            (("engineVersion", settings.rules.label),),
            _POOLS,
        ),
        Step(
            "blocksPerSequence",
            account.pages_per_sequence,
            "blocks",
            per_sequence,
            (("longestRequest", account.longest), *parts),
            _POOLS,
        ),
    )
