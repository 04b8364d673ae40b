"""How a pool may move: who writes the count, its bounds and HPA's `behavior`."""

from dataclasses import dataclass
from enum import StrEnum


class Actuation(StrEnum):
    """Who writes the replica count."""

    SCALE = "Scale"
    EXTERNAL = "External"


class OnUnknown(StrEnum):
    """What happens when demand has been Unknown for long."""

    FLOOR = "Floor"
    HOLD = "Hold"


class PolicyType(StrEnum):
    """Units of a scaling policy, as in autoscaling/v2."""

    PODS = "Pods"
    PERCENT = "Percent"


class PolicySelect(StrEnum):
    """Which policy counts when several apply, as in autoscaling/v2."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods (or percent) in `period_seconds`."""

    type: PolicyType
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """One direction of HPA's `behavior`.

    Attributes:
        tolerance_milli: relative deviation that is left alone, in thousandths (HPA: 100).
    """

    policies: tuple[ScalingPolicy, ...]
    stabilization_window_seconds: int
    select_policy: PolicySelect = PolicySelect.MAX
    tolerance_milli: int = 100


SCALE_UP = ScalingRules(
    (ScalingPolicy(PolicyType.PERCENT, 100, 15), ScalingPolicy(PolicyType.PODS, 4, 15)), 0
)
"""HPA's own default upwards (kubernetes v1.37 pkg/apis/autoscaling/v2/defaults.go)."""


SCALE_DOWN = ScalingRules((ScalingPolicy(PolicyType.PODS, 1, 300),), 300)
"""One pod in 5 minutes (rule 3): an LLM replica that was removed costs minutes to get back."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the target may move.

    Attributes:
        max_replicas: 100 when not declared, as KEDA does.
        max_devices: bound on devices over all replicas; None: none.
        max_pending: replicas written beyond what is placeable (rule 6).
    """

    actuation: Actuation = Actuation.SCALE
    min_replicas: int = 1
    max_replicas: int = 100
    max_devices: int | None = None
    target_occupancy_percent: int = 85
    max_pending: int = 2
    on_unknown: OnUnknown = OnUnknown.FLOOR
    scale_up: ScalingRules = SCALE_UP
    scale_down: ScalingRules = SCALE_DOWN
