"""`spec.targets[]`: the workload to scale, and what is stated of its engine and devices."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kvscale.api.quantity import quantity_to_int
from kvscale.api.rules import ApiModel, Degree, DnsLabel, DnsSubdomain, Rule, Tokens
from kvscale.core.devices.price import DEFAULT_CURRENCY, MICROS, Price
from kvscale.core.engines.config import EngineKind
from kvscale.core.spec import DeviceOverrides, EngineOverrides, TargetSpec
from kvscale.core.values import GIB

SizeQuantity = Annotated[
    str,
    Field(max_length=32, pattern=r"^[0-9]{1,18}(\.[0-9]{1,9})?([kMGTPE]|[KMGTPE]i)?$"),
]
_TIB = 2**40


class WorkloadReference(ApiModel):
    """The workload whose replicas are scaled, in the pool's namespace."""

    api_version: Literal["apps/v1"] = "apps/v1"
    """Group and version of the workload."""
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    """Deployment or StatefulSet."""
    name: DnsSubdomain
    """Name of the workload, e.g. llama."""


class EngineModel(ApiModel):
    """What the pool states of the engine. It wins over the server's arguments.

    A contradiction between the two is shown in the status.
    """

    kind: EngineKind | None = None
    """The engine: vLLM, SGLang or TensorRT-LLM. Absent: by the server's command or image."""
    version: (
        Annotated[
            str, Field(max_length=64, pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?([-.+a-zA-Z0-9]*)$")
        ]
        | None
    ) = None
    """Version of the engine, e.g. "0.32" or "0.32.1" (in quotes). Absent: from the image's tag."""
    tensor_parallel: Degree | None = None
    """Devices that split each layer (--tensor-parallel-size), e.g. 2."""
    pipeline_parallel: Degree | None = None
    """Stages that split the layers (--pipeline-parallel-size), e.g. 1."""
    data_parallel: Degree | None = None
    """Engines in one pod, each with its own KV pool (--data-parallel-size), e.g. 1."""
    memory_utilization_milli: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None
    """Share of device memory that the engine may use, in thousandths, e.g. 900 for
    --gpu-memory-utilization 0.9."""
    kv_cache_memory_bytes: Annotated[int, Field(strict=True, ge=1, le=2**50)] | None = None
    """KV memory per device in bytes (--kv-cache-memory-bytes), e.g. 10737418240. Makes the ceiling
    exact: recommended."""
    kv_cache_dtype: Annotated[str, Field(max_length=32, pattern=r"^[a-z0-9_]+$")] | None = None
    """Element type of the KV cache (--kv-cache-dtype), e.g. auto, fp8, bfloat16."""
    max_model_len: Tokens | None = None
    """Longest sequence in tokens (--max-model-len), e.g. 32768."""
    max_num_seqs: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """Largest running batch in sequences (--max-num-seqs), e.g. 256."""
    max_num_batched_tokens: Tokens | None = None
    """Token budget of one step (--max-num-batched-tokens), e.g. 8192."""
    block_size: Annotated[int, Field(strict=True, ge=1, le=65_536)] | None = None
    """Tokens of one KV block (--block-size), e.g. 16."""

    def to_core(self) -> EngineOverrides:
        """The overrides as the loop reads them; the fields have the same names."""
        return EngineOverrides(**dict(self))


class DevicesModel(ApiModel):
    """What the pool states of the devices. It wins over the pod template and the nodes.

    Needed where the operator may not read nodes.
    """

    rules: ClassVar = (
        Rule(
            "!has(self.memory) || !isQuantity(self.memory) ||"
            " (quantity(self.memory).compareTo(quantity('1Gi')) >= 0"
            " && quantity(self.memory).compareTo(quantity('16Ti')) <= 0)",
            lambda s: s.memory is None or GIB <= quantity_to_int(s.memory) <= 16 * _TIB,
            "{memory} is no size of a device's memory (1Gi to 16Ti): check the unit, as in 79Gi",
            "memory",
        ),
    )

    resource_name: (
        Annotated[
            str,
            Field(
                max_length=317,
                pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            ),
        ]
        | None
    ) = None
    """Extended resource of the device, e.g. nvidia.com/gpu. Absent: what the container requests."""
    product: (
        Annotated[
            str, Field(max_length=128, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_. ]*[A-Za-z0-9])?$")
        ]
        | None
    ) = None
    """Product as the node label nvidia.com/gpu.product names it, e.g. NVIDIA-H100-80GB-HBM3, or a
    common name, e.g. L4."""
    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    """Devices of one pod, e.g. 1. Absent: what the container requests."""
    memory: SizeQuantity | None = None
    """Memory of one device as the CUDA runtime reports it, e.g. 79Gi for an 80 GB H100."""

    def to_core(self) -> DeviceOverrides:
        """The overrides as the loop reads them, memory in bytes."""
        return DeviceOverrides(
            resource_name=self.resource_name,
            product=self.product,
            count=self.count,
            memory_bytes=None if self.memory is None else quantity_to_int(self.memory),
        )


class CostModel(ApiModel):
    """What the devices cost. Absent: their list price, as far as one is known."""

    rules: ClassVar = (
        Rule(
            "self.perDeviceHour.matches('[1-9]')",
            lambda s: any(digit in s.per_device_hour for digit in "123456789"),
            "{perDeviceHour} is no price: leave cost out where none is known",
            "perDeviceHour",
        ),
    )

    per_device_hour: Annotated[str, Field(max_length=16, pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")]
    """Price of one device for one hour, e.g. "2.49" (in quotes)."""
    currency: Annotated[str, Field(max_length=3, pattern=r"^[A-Z]{3}$")] | None = None
    """ISO 4217 code of the currency, e.g. USD. Absent: USD."""

    def to_core(self) -> Price:
        """The price as a plan reads it."""
        return Price(
            quantity_to_int(self.per_device_hour, MICROS),
            self.currency or DEFAULT_CURRENCY,
            "spec.targets[0].cost",
        )


def _engines_fit_devices(target: "TargetModel") -> bool:
    engine, devices = target.engine, target.devices
    if engine is None or devices is None or devices.count is None:
        return True
    degrees = (engine.tensor_parallel, engine.pipeline_parallel, engine.data_parallel)
    needed = 1
    for degree in degrees:
        needed *= degree or 1
    return needed <= devices.count


class TargetModel(ApiModel):
    """A workload that serves the model, on one kind of device."""

    rules: ClassVar = (
        Rule(
            "!has(self.engine) || !has(self.devices) || !has(self.devices.count) ||"
            " (has(self.engine.tensorParallel) ? self.engine.tensorParallel : 1)"
            " * (has(self.engine.pipelineParallel) ? self.engine.pipelineParallel : 1)"
            " * (has(self.engine.dataParallel) ? self.engine.dataParallel : 1)"
            " <= self.devices.count",
            _engines_fit_devices,
            "{devices.count} is less than tensorParallel x pipelineParallel x dataParallel:"
            " raise devices.count or lower the parallel degrees",
            "devices.count",
        ),
    )

    name: DnsLabel = "default"
    """Key of the list, e.g. h100."""
    ref: WorkloadReference
    """The workload to scale."""
    container_name: DnsLabel | None = None
    """Container that runs the engine, e.g. vllm. Absent: the one that requests devices."""
    engine: EngineModel | None = None
    """Overrides of what the server's arguments say."""
    devices: DevicesModel | None = None
    """Overrides of what the pod template and the nodes say."""
    cost: CostModel | None = None
    """What the devices cost. Absent: their list price, as far as one is known."""

    def to_core(self) -> TargetSpec:
        """The target as the loop reads it."""
        return TargetSpec(
            ref_kind=self.ref.kind,
            ref_name=self.ref.name,
            name=self.name,
            container_name=self.container_name or "",
            engine=EngineOverrides() if self.engine is None else self.engine.to_core(),
            devices=DeviceOverrides() if self.devices is None else self.devices.to_core(),
            price=None if self.cost is None else self.cost.to_core(),
        )
