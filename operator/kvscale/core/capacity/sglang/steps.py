"""The trace of an SGLang capacity: every step that a stranger needs to find the tokens by hand."""

from dataclasses import dataclass

from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.sglang.cells import Cells
from kvscale.core.capacity.sglang.settings import PPM, SGLangSettings
from kvscale.core.capacity.sglang.states import StatePool
from kvscale.core.devices.device import Device
from kvscale.core.engines.sglang.fraction import device_mib
from kvscale.core.engines.sglang.memory import Load
from kvscale.core.trace import Scalar, Step, Trace
from kvscale.core.values import Band

_POOLS = "sglang 0.5.23 srt/model_executor/pool_configurator.py"
_PROFILE = "sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py _profile_available_bytes"

VISION_BELOW = 0.995
"""A default fraction below the rule's by more than rounding has a vision tower's factor in it."""


@dataclass(frozen=True, slots=True)
class Account:
    """The numbers of the stage with least room; see `core.capacity.sglang.engine`."""

    device: Device
    stage: Stage
    cells: Cells
    weight_bytes: int
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


def trace(settings: SGLangSettings, account: Account) -> Trace:
    """From the device's memory to tokens."""
    return (*_budget_steps(settings, account), *_token_steps(settings, account))


def _budget_steps(settings: SGLangSettings, account: Account) -> Trace:
    weights = Step(
        "weightBytesPerDevice",
        account.weight_bytes,
        "bytes",
        "sum of parameters x bits / 8 / ranks that share them, over the parts of the model",
    )
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
    fraction = _fraction_step(settings, account)
    steps: Trace = (
        weights,
        total,
        Step(
            "freeBeforeLoadBytes",
            free.expected,
            "bytes",
            "cudaTotalBytes - CUDA context and communicators",
            (("low", free.low), ("high", free.high)),
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
            "freeBeforeLoadBytes x memFractionStatic - weightBytesPerDevice - besideWeightsBytes"
            + (" - multimodalReserveBytes" if reserve else "")
            + (" - statePoolBytes" if account.states is not None else ""),
            (
                ("freeBeforeLoadBytes", free.expected),
                ("weightBytesPerDevice", account.weight_bytes),
                ("besideWeightsBytes", beside.expected),
                *reserve,
                ("low", account.kv.low),
                ("high", account.kv.high),
            ),
            _PROFILE,
        ),
    )


def _fraction_step(settings: SGLangSettings, account: Account) -> Step:
    name, source = "memFractionStatic", "sglang 0.5.23 srt/arg_groups/memory_hook.py"
    fraction, reserved = settings.fraction_milli / 1000, settings.reserved_mib
    if reserved is None:
        return Step(name, fraction, "", "--mem-fraction-static", (), source)
    formula = "round((device MiB - reservedMib) / device MiB, 3), the default"
    vision = fraction / round(1 - reserved / device_mib(account.device.memory_bytes), 3)
    inputs: tuple[tuple[str, Scalar], ...] = (("reservedMib", reserved),)
    if vision < VISION_BELOW:
        formula = f"{formula}, x visionFactor, rounded down to thousandths"
        inputs += (("visionFactor", round(vision, 3)),)
    return Step(name, fraction, "", formula, inputs, source)


def _state_steps(account: Account) -> Trace:
    states = account.states
    if states is None:
        return ()
    return (
        Step(
            "statePoolBytes",
            states.bytes,
            "bytes",
            "slots x bytes of one state, drafts included",
            (("slots", states.slots), ("slotBytes", account.cells.state)),
            "sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py _handle_max_mamba_cache",
        ),
    )


def _token_steps(settings: SGLangSettings, account: Account) -> Trace:
    held, page = account.cells, settings.page_tokens
    most = settings.options.max_total_tokens
    counted: list[tuple[str, Scalar]] = [
        ("fullBytes", held.full),
        ("kvCacheDtype", held.cache.kv.name),
    ]
    formula = "sum over the layers of the bytes of one token on one rank"
    if settings.options.draft_layers and settings.rules.draft_priced:
        counted.append(("draftLayers", settings.options.draft_layers))
        formula += ", the draft model's layers as wide as the mean"
    pool = ""
    if account.window_pool:
        formula = "fullBytes; the window pool is sized by the requests"
        pool = " less windowPoolBytes"
    elif held.window and held.full:
        counted += [
            ("windowBytes", held.window),
            ("swaFullTokensRatio", account.ratio_ppm / PPM),
        ]
        formula = "fullBytes + swaFullTokensRatio x windowBytes"
    return (
        Step("blockTokens", page, "tokens", settings.page_reason, (), _POOLS),
        Step("bytesPerToken", account.cell_milli / 1000, "bytes", formula, tuple(counted), _POOLS),
        Step(
            "kvBlocks",
            account.tokens.expected // page,
            "blocks",
            f"kvMemoryBytes{pool} // bytesPerToken // blockTokens, of the pool of full attention"
            + ("" if most is None else "; at most --max-total-tokens"),
            (
                ("kvMemoryBytes", account.kv.expected),
                *((("windowPoolBytes", account.window_pool),) if pool else ()),
                *(() if most is None else (("maxTotalTokens", most),)),
                ("pipelineStage", f"layers {account.stage.first} to {account.stage.last - 1}"),
                ("low", account.tokens.low // page),
                ("high", account.tokens.high // page),
            ),
            _POOLS,
        ),
        Step(
            "kvCacheSizeTokens",
            account.tokens.expected,
            "tokens",
            "kvBlocks x blockTokens (sglang:max_total_num_tokens)",
            (("engineVersion", settings.rules.label),),
            _POOLS,
        ),
        Step(
            "blocksPerSequence",
            account.pages_per_sequence,
            "blocks",
            "largest share of a pool that one sequence of the maximum length takes",
            (("maxModelLen", settings.max_model_len), ("blockTokens", page)),
            _POOLS,
        ),
    )
