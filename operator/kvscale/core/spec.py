"""What a user asks for: the core's form of an InferencePool's spec, after parsing.

Every tunable has its default here, so that absent means one thing. The API keeps no defaults.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvscale.core.devices.price import Price
from kvscale.core.engines.config import EngineKind
from kvscale.core.model.shape import ModelShape
from kvscale.core.scaling import Scaling
from kvscale.core.traffic.declared import Traffic


class Mode(StrEnum):
    """What kvscale may do to the target."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


def most_cautious(*modes: Mode | None) -> Mode:
    """The mode in effect of several (the pool's, the operator's); None asks for nothing."""
    caution = list(Mode)
    return max((mode or Mode.AUTO for mode in modes), key=caution.index)


class PlanningMode(StrEnum):
    """What a plan budgets for.

    Percentile: every request as long as the one at the planning percentile. OverflowProbability:
    the sum of what an engine's requests hold, which is above its memory only so often.
    """

    PERCENTILE = "Percentile"
    OVERFLOW_PROBABILITY = "OverflowProbability"


PER_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Planning:
    """What a plan budgets for.

    Attributes:
        percentile: the planning percentile: 50, 90, 95 or 99.
        overflow_per_million: how often the residents of an engine may exceed its memory in mode
            OverflowProbability, in millionths of the time.
    """

    mode: PlanningMode = PlanningMode.PERCENTILE
    percentile: int = 95
    overflow_per_million: int = 1000

    @property
    def by_overflow(self) -> bool:
        """Whether the sum of an engine's residents is what is budgeted for."""
        return self.mode is PlanningMode.OVERFLOW_PROBABILITY

    @property
    def quantile(self) -> float:
        """The quantile of a sum of residents that is planned for, 0 to 1."""
        if self.by_overflow:
            return 1 - self.overflow_per_million / PER_MILLION
        return self.percentile / 100


@dataclass(frozen=True, slots=True)
class ConfigMapRef:
    """A ConfigMap of the pool's namespace that holds a config.json."""

    name: str
    config_key: str = "config.json"
    quantization_key: str = ""


ModelSource = str | ConfigMapRef | ModelShape
"""A preset's name, a ConfigMap, or a shape by hand."""


@dataclass(frozen=True, slots=True)
class EngineOverrides:
    """What the pool states of the engine; it wins over the server's arguments. None: not stated."""

    kind: EngineKind | None = None
    version: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    memory_utilization_milli: int | None = None
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceOverrides:
    """What the pool states of the devices; it wins over pod template and nodes.

    Attributes:
        resource_name: the extended resource; None: the one that the pod template requests.
        product: as GPU feature discovery labels it, or a common name ("L4").
        count: devices of one pod.
        memory_bytes: of one device, as the CUDA runtime reports it.
    """

    resource_name: str | None = None
    product: str | None = None
    count: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The workload to scale and what is stated of it."""

    ref_kind: str
    ref_name: str
    name: str = "default"
    container_name: str = ""
    engine: EngineOverrides = EngineOverrides()
    devices: DeviceOverrides = DeviceOverrides()
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """Where the engines' metrics are; None: the operator's default.

    Attributes:
        source_name: a source of the operator's configuration, by name (never a URL: rule against
            server-side request forgery).
    """

    source_name: str | None = None
    port: int | None = None
    path: str | None = None
    served_model_name: str = ""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A valid pool, as the loop reads it.

    Attributes:
        mode: None: the operator's default.
        model: None: from the server's arguments.
        percentile: the planning percentile: 50, 90, 95 or 99.
        planning_mode, overflow_per_million: see `Planning`.
    """

    target: TargetSpec
    mode: Mode | None = None
    model: ModelSource | None = None
    metrics: MetricsSpec = MetricsSpec()
    traffic: Traffic | None = None
    percentile: int = 95
    scaling: Scaling = Scaling()
    planning_mode: PlanningMode = PlanningMode.PERCENTILE
    overflow_per_million: int = 1000

    @property
    def planning(self) -> Planning:
        """What the plan budgets for."""
        return Planning(self.planning_mode, self.percentile, self.overflow_per_million)

    @property
    def occupancy_percent(self) -> int:
        """Share of the usable blocks that planned blocks may fill.

        By overflow probability all of them: the room that the target occupancy keeps free is what
        that mode computes, and both together would ask for more replicas than the plan does.
        """
        return 100 if self.planning.by_overflow else self.scaling.target_occupancy_percent


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """Namespace and name of an InferencePool."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Freeze(StrEnum):
    """One direction that a person has frozen by annotation."""

    NONE = ""
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
