"""The pools of an SGLang server beside that of full attention, and the batch that they bound."""

from kvscale.core.capacity.pools import Pool
from kvscale.core.capacity.sglang.cells import Cells
from kvscale.core.capacity.sglang.settings import PPM, SGLangSettings
from kvscale.core.capacity.sglang.states import StatePool

SWA_RATIO_PPM = 800_000
"""Default of `--swa-full-tokens-ratio`."""

EVICTION_TOKENS = 128
"""Tokens behind a window that are freed at a time (SGLANG_SWA_EVICTION_INTERVAL)."""


CAP_FROM = (0, 5, 14)
"""First version that sizes a window pool for its requests."""


def pools_of(
    settings: SGLangSettings, held: Cells, states: StatePool | None, tokens: int
) -> tuple[Pool, ...]:
    """The pools of a server whose pool of full attention holds that many tokens."""
    found = [Pool("full", tokens, tokens)]
    page = settings.page_tokens
    if held.window and held.full:
        drafts = max(1, settings.drafts)
        most = held.window_tokens + EVICTION_TOKENS * drafts + 2 * page
        size = window_cap(settings, held)
        if size is None:
            size = tokens * swa_ratio_ppm(settings) // PPM // page * page
        # The chunk of a prompt that is being written waits for room; no sequence keeps it.
        found.append(Pool("window", size, tokens, most=most))
    if states is not None:
        slots = settings.rules.slots_per_request(
            settings.options.mamba_strategy, radix=settings.radix, overlap=settings.options.overlap
        )
        found.append(Pool("state", states.slots, tokens, fixed=slots))
    return tuple(found)


def window_cap(settings: SGLangSettings, held: Cells) -> int | None:
    """Tokens of a window pool that is sized for its requests; None: by its ratio.

    Without radix cache and with a stated `--max-running-requests` (sglang 0.5.23
    model_executor/pool_configurator.py, compute_swa_request_cap).
    """
    capped = settings.rules.version >= CAP_FROM and not settings.radix
    if not (capped and settings.requests and held.window and held.full):
        return None
    page, drafts = settings.page_tokens, max(1, settings.drafts)
    decoding = 2 * drafts if settings.drafts else page
    each = held.window_tokens + EVICTION_TOKENS * drafts + page + decoding
    chunks = 2 if settings.options.overlap else 1
    tokens = each * settings.requests + chunks * settings.chunk + page
    return -(-tokens // page) * page


def largest_batch(settings: SGLangSettings, states: StatePool | None, tokens: int) -> int:
    """The largest running batch (`resolve_max_num_reqs`)."""
    if settings.requests is None:
        most = max(min(tokens * 512 // settings.max_model_len, 4096), 2048)
        if settings.rules.version >= (0, 5, 10):
            most = min(most, tokens // 2)
    else:
        most = settings.requests
        if settings.rules.version >= (0, 5, 14):
            most = min(most, tokens // 2)
    if states is not None:
        options = settings.options
        slots = settings.rules.slots_per_request(
            options.mamba_strategy, radix=settings.radix, overlap=options.overlap
        )
        most = min(most, states.slots // slots)
    return max(0, most)


def swa_ratio_ppm(settings: SGLangSettings) -> int:
    """Tokens of the window pool per token of the full one, in millionths."""
    stated = settings.options.swa_ratio_ppm
    return SWA_RATIO_PPM if stated is None else stated
