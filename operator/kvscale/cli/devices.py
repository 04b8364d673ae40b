"""`kvscale devices`: the names that --gpu takes."""

from kvscale.app.listing import DEVICES, device_documents, device_lines
from kvscale.cli.output import Output, OutputOption, emit


def devices(*, output: OutputOption = Output.TABLE) -> None:
    """Devices that are known by name, with memory, compute capability and speed."""
    found = device_documents()
    emit({DEVICES: found}, device_lines(found), output)
