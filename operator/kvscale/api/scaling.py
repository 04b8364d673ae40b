"""`spec.scaling`: how the target may move. `behavior` has the field names of autoscaling/v2."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kvscale.api.quantity import milli_quantity, quantity_to_int
from kvscale.api.rules import ApiModel, PositiveInt, Replicas, Rule
from kvscale.core.scaling import (
    Actuation,
    OnUnknown,
    PolicySelect,
    PolicyType,
    Scaling,
    ScalingPolicy,
    ScalingRules,
)

Ratio = Annotated[str, Field(max_length=16, pattern=r"^[0-9]{1,6}(\.[0-9]{1,3})?$|^[0-9]{1,6}m$")]


class PolicyModel(ApiModel):
    """A limit on the change within a period (HPAScalingPolicy)."""

    type: PolicyType
    """Unit of value: Pods or Percent."""
    value: PositiveInt
    """Largest change within the period, in pods or percent, e.g. 4."""
    period_seconds: Annotated[int, Field(strict=True, ge=1, le=1800)]
    """Length of the period in seconds, at most 1800, e.g. 60."""


class DirectionModel(ApiModel):
    """Rules of one direction (HPAScalingRules); what is absent keeps kvscale's default."""

    stabilization_window_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] | None = None
    """Seconds over which past recommendations are regarded, at most 3600, e.g. 300."""
    select_policy: PolicySelect | None = None
    """Which policy counts where several apply: Max, Min, or Disabled to forbid the direction.
    Absent: Max."""
    policies: (
        Annotated[
            tuple[PolicyModel, ...],
            Field(
                min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}
            ),
        ]
        | None
    ) = None
    """Limits on the pace, e.g. [{type: Pods, value: 1, periodSeconds: 300}]."""
    tolerance: Ratio | None = None
    """Relative deviation that is left alone, a quantity in quotes, e.g. "0.1" or "50m". Absent:
    "0.1"."""

    def to_core(self, default: ScalingRules) -> ScalingRules:
        """The rules as the loop reads them.

        Field by field, as autoscaling/v2 fills its defaults in (kubernetes v1.37
        pkg/apis/autoscaling/v2/defaults.go, copyHPAScalingRules).
        """
        window = self.stabilization_window_seconds
        policies = tuple(
            ScalingPolicy(policy.type, policy.value, policy.period_seconds)
            for policy in self.policies or ()
        )
        return ScalingRules(
            policies=policies or default.policies,
            stabilization_window_seconds=(
                default.stabilization_window_seconds if window is None else window
            ),
            select_policy=self.select_policy or default.select_policy,
            tolerance_milli=(
                default.tolerance_milli
                if self.tolerance is None
                else quantity_to_int(self.tolerance, 1000)
            ),
        )

    @classmethod
    def from_core(cls, rules: ScalingRules) -> "DirectionModel":
        """The rules in effect, for the status."""
        return cls(
            stabilization_window_seconds=rules.stabilization_window_seconds,
            select_policy=rules.select_policy,
            policies=tuple(
                PolicyModel(type=p.type, value=p.value, period_seconds=p.period_seconds)
                for p in rules.policies
            ),
            tolerance=milli_quantity(rules.tolerance_milli),
        )


class BehaviorModel(ApiModel):
    """Pace of both directions (HorizontalPodAutoscalerBehavior)."""

    scale_up: DirectionModel | None = None
    """Upwards. Absent: the larger of 100 percent and 4 pods in 15 seconds, no window."""
    scale_down: DirectionModel | None = None
    """Downwards. Absent: 1 pod in 300 seconds, window 300 seconds."""


_DEFAULT = Scaling()


class ScalingModel(ApiModel):
    """How the target may move."""

    rules: ClassVar = (
        Rule(
            "!has(self.minReplicas) || self.minReplicas >= 1",
            lambda s: s.min_replicas is None or s.min_replicas >= 1,
            "0 needs a signal that wakes the pool, which this version does not have: use 1 or more",
            "minReplicas",
        ),
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas <= self.maxReplicas",
            lambda s: (
                s.min_replicas is None or s.max_replicas is None or s.min_replicas <= s.max_replicas
            ),
            "{maxReplicas} is below minReplicas {minReplicas}: raise maxReplicas or lower"
            " minReplicas",
            "maxReplicas",
        ),
        Rule(
            f"has(self.maxReplicas) || !has(self.minReplicas)"
            f" || self.minReplicas <= {_DEFAULT.max_replicas}",
            lambda s: (
                s.max_replicas is not None
                or s.min_replicas is None
                or s.min_replicas <= _DEFAULT.max_replicas
            ),
            f"minReplicas {{minReplicas}} is above {_DEFAULT.max_replicas}, which maxReplicas is"
            " when absent: set maxReplicas",
            "maxReplicas",
            "FieldValueRequired",
        ),
    )

    actuation: Actuation | None = None
    """Who writes the replicas: Scale (kvscale, by the scale subresource) or External (kvscale
    publishes the number, an HPA or KEDA acts). Absent: Scale."""
    min_replicas: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = None
    """Fewest replicas, 1 or more. Absent: 1."""
    max_replicas: Replicas | None = None
    """Most replicas, e.g. 12. Absent: 100."""
    max_devices: PositiveInt | None = None
    """Most devices over all replicas, e.g. 48. Absent: no limit."""
    target_occupancy_percent: Annotated[int, Field(strict=True, ge=1, le=100)] | None = None
    """Occupancy of KV blocks to size for, in percent, e.g. 85. Absent: 85."""
    max_pending_replicas: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = None
    """Replicas written beyond those that devices exist for, so that a node autoscaler sees them,
    e.g. 2. Absent: 2."""
    on_unknown: OnUnknown | None = None
    """When demand has been unknown for long: Floor (at least what the declared mean rate needs) or
    Hold (keep the replicas). Absent: Floor."""
    behavior: BehaviorModel | None = None
    """Pace, with the field names of HorizontalPodAutoscaler."""

    def to_core(self) -> Scaling:
        """The rules as the loop reads them, defaults filled in."""
        behavior = self.behavior or BehaviorModel()
        stated: dict[str, Any] = {
            name: value
            for name, value in (
                ("actuation", self.actuation),
                ("min_replicas", self.min_replicas),
                ("max_replicas", self.max_replicas),
                ("max_devices", self.max_devices),
                ("target_occupancy_percent", self.target_occupancy_percent),
                ("max_pending", self.max_pending_replicas),
                ("on_unknown", self.on_unknown),
            )
            if value is not None
        }
        return Scaling(
            **stated,
            scale_up=(behavior.scale_up or DirectionModel()).to_core(_DEFAULT.scale_up),
            scale_down=(behavior.scale_down or DirectionModel()).to_core(_DEFAULT.scale_down),
        )
