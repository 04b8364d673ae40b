"""Devices and models that are known by name, as documents for scripts and tables for people."""

from collections.abc import Sequence

from kvscale.app.documents import Document
from kvscale.app.tables import number, size, table
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import CARDS
from kvscale.core.model.presets import PRESET_NAMES, preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

DEVICES, PRESETS = "devices", "presets"
_UNKNOWN = "-"


def device_documents() -> list[Document]:
    """Every device of the table, in its order; memory is null where it was never measured."""
    found = []
    for card in CARDS:
        device = card.device()
        memory = device.memory_bytes if isinstance(device, Device) else None
        found.append({
            "name": card.product,
            "memoryBytes": memory,
            "computeCapability": card.compute_capability or None,
            "bandwidthBytesPerSecond": card.bandwidth_gb_per_second * 10**9,
            "flopsPerSecond": round(card.dense_tflops * 10**12),
            "aliases": list(card.aliases),
        })  # fmt: skip
    return found


def device_lines(found: Sequence[Document]) -> list[str]:
    """The devices for a person."""
    rows = [
        (
            one["name"],
            size(one["memoryBytes"]) if one["memoryBytes"] else _UNKNOWN,
            one["computeCapability"] or _UNKNOWN,
            number(one["bandwidthBytesPerSecond"] // 10**9),
            number(one["flopsPerSecond"] / 10**12),
        )
        for one in found
    ]
    return [
        *table(("device", "memory", "capability", "GB/s", "TFLOP/s, 16 bit"), rows),
        "",
        "Case, dashes and the vendor's name do not matter: L4, h200. A MIG slice is named",
        "DEVICE-MIG-PROFILE: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb. Memory is as the CUDA runtime has",
        "it; where it is -, no measured figure is known: state targets[].devices.memory in a pool.",
    ]


def preset_documents(word: str = "") -> list[Document]:
    """The presets with that word in their names, by name; aliases included.

    Args:
        word: in any case; "": all.
    """
    found = []
    for name in PRESET_NAMES:
        if word.lower() not in name.lower():
            continue
        shape = preset(name)
        if not isinstance(shape, Refusal):
            layers = _layers(shape)
            found.append({"name": name, "parameters": shape.parameters, "layers": layers})
    return found


def preset_lines(found: Sequence[Document]) -> list[str]:
    """The presets for a person."""
    rows = [
        (
            one["name"],
            f"{one['parameters'] / 1e9:,.2f} B",
            ", ".join(f"{count} {kind}" for kind, count in one["layers"].items()),
        )
        for one in found
    ]
    headers = ("preset", "parameters", "layers that keep state")
    names, sizes = (max(len(row[at]) for row in (headers, *rows)) for at in (0, 1))
    return [f"{a.ljust(names)}  {b.rjust(sizes)}  {c}" for a, b, c in (headers, *rows)]


def _layers(shape: ModelShape) -> dict[str, int]:
    """Layers by kind, in the order of the shape."""
    found: dict[str, int] = {}
    for group in shape.layer_groups:
        found[group.kind.value] = found.get(group.kind.value, 0) + group.layers
    return found
