"""`kvscale compare`: a pool on other devices, sorted by what it costs."""

from dataclasses import replace
from typing import Annotated

import typer

from kvscale.app.compare import compare as compare_pool
from kvscale.app.compare import options
from kvscale.app.compare_view import compare_document, compare_page
from kvscale.cli.errors import fail
from kvscale.cli.options import (
    PlotOption,
    PriceOption,
    PricesOption,
    degrees,
    device_named,
    dtypes,
    given_prices,
    names,
)
from kvscale.cli.output import Output, OutputOption, emit, refuse
from kvscale.cli.plot_file import check_plot, write_plot
from kvscale.cli.pool_files import FileOption, ManifestOption, mend, read_pool
from kvscale.cli.trace_file import TraceOption, with_trace
from kvscale.core.devices.table import CARDS
from kvscale.core.refusal import Refusal

MOST_OPTIONS = 400
ALL = "all"


def compare(
    *,
    file: FileOption,
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu", help="devices to compare: L4,L40S,H100; the word all: every known device"
        ),
    ],
    tensor_parallel: Annotated[
        str | None,
        typer.Option("--tensor-parallel", help="degrees to try: 1,2,4; default: the pool's"),
    ] = None,
    kv_cache_dtype: Annotated[
        str | None,
        typer.Option("--kv-cache-dtype", help="formats to try: auto,fp8; default: the pool's"),
    ] = None,
    manifest: ManifestOption = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    trace: TraceOption = None,
    plot: PlotOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What fits on other devices, how many replicas it takes and what they cost."""
    check_plot(plot)
    files = read_pool(file, manifest)
    wanted = options(
        _products(gpu),
        () if tensor_parallel is None else degrees(tensor_parallel, "--tensor-parallel"),
        () if kv_cache_dtype is None else dtypes(kv_cache_dtype, "--kv-cache-dtype"),
    )
    if len(wanted) > MOST_OPTIONS:
        fail(f"{len(wanted)} combinations are too many to compare: give {MOST_OPTIONS} or fewer")
    found = compare_pool(
        files.name,
        with_trace(files.spec, trace),
        wanted,
        workload=files.workload,
        config_map=files.config_map,
        given_prices=given_prices(price, prices, files.spec),
    )
    mistake = found.mistake
    if mistake is not None:
        more = mend(mistake.reason, files, gpu=True)
        refuse(_mended(mistake, more), compare_document(found), output)
    found = replace(
        found,
        unfit=tuple(
            replace(one, refusal=_mended(one.refusal, mend(one.refusal.reason, files, gpu=True)))
            for one in found.unfit
        ),
    )
    emit(compare_document(found), compare_page(found), output)
    write_plot(plot, "compare_figure", found)


def _mended(refusal: Refusal, more: str) -> Refusal:
    return replace(refusal, message=refusal.message + more)


def _products(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for name in names(text, "--gpu"):
        if name.lower() == ALL:
            found += [card.product for card in CARDS if card.cuda_gib is not None]
        else:
            found.append(device_named(name, "--gpu").product)
    return tuple(dict.fromkeys(found))
