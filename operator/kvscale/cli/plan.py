"""`kvscale plan`: what a pool holds and how many replicas it needs, without a cluster."""

from dataclasses import replace
from typing import Annotated

import typer

from kvscale.app.plan import plan as plan_pool
from kvscale.app.plan_document import plan_document
from kvscale.app.plan_view import plan_page
from kvscale.cli.options import PlotOption, PriceOption, PricesOption, device_named, given_prices
from kvscale.cli.output import Output, OutputOption, emit, refuse
from kvscale.cli.plot_file import check_plot, write_plot
from kvscale.cli.pool_files import FileOption, ManifestOption, mend, read_pool
from kvscale.cli.trace_file import TraceOption, with_trace
from kvscale.core.refusal import Refusal


def plan(
    *,
    file: FileOption,
    manifest: ManifestOption = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            help="device: NVIDIA-L4, L4, H100 (see kvscale devices); wins over the pool's",
        ),
    ] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    trace: TraceOption = None,
    plot: PlotOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ceiling, replicas and cost of a pool, with every step of the arithmetic."""
    check_plot(plot)
    files = read_pool(file, manifest)
    result = plan_pool(
        files.name,
        with_trace(files.spec, trace),
        workload=files.workload,
        config_map=files.config_map,
        gpu=None if gpu is None else device_named(gpu, "--gpu").product,
        given_prices=given_prices(price, prices, files.spec),
    )
    document = plan_document(result)
    if isinstance(result, Refusal):
        message = result.message + mend(result.reason, files, gpu=gpu is not None)
        refuse(replace(result, message=message), document, output)
    emit(document, plan_page(result), output)
    write_plot(plot, "plan_figure", result)
