"""A device: one GPU as the scheduler counts it."""

from dataclasses import dataclass

_UNIFIED = frozenset({"gb10", "spark", "thor", "orin"})


@dataclass(frozen=True, slots=True)
class Device:
    """What the arithmetic needs of a device.

    Attributes:
        product: as the GPU labels name it ("NVIDIA-L4", "NVIDIA-H100-80GB-HBM3").
        memory_bytes: what the CUDA runtime reports as total, not the nominal size.
        bandwidth_bytes_per_second: of the device's memory; 0 if not known (no step time then).
        flops_per_second: dense bf16 peak; 0 if not known.
        compute_capability: "8.9", "9.0"; "" if not known.
        evidence: where the memory figure comes from, for the trace.
    """

    product: str
    memory_bytes: int
    bandwidth_bytes_per_second: int = 0
    flops_per_second: int = 0
    compute_capability: str = ""
    evidence: str = ""

    @property
    def unified_memory(self) -> bool:
        """Whether it shares the host's memory (GB10, the chip of DGX Spark; Jetson)."""
        words = self.product.lower().replace("-", " ").split()
        return self.compute_capability == "12.1" or not _UNIFIED.isdisjoint(words)
