"""The InferencePool (kvscale.io/v1alpha1): names of the kind, and its spec.

This shape must last: kopf has no conversion webhooks, so only optional fields are ever added.
Tunables have no default here; absent means the operator's default, which the status shows.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from kvscale.api.rules import ApiModel, Rule
from kvscale.api.scaling import ScalingModel
from kvscale.api.shape import ModelSourceModel
from kvscale.api.target import TargetModel
from kvscale.api.traffic import MetricsModel, TrafficModel
from kvscale.core.spec import Mode, PlanningMode

GROUP: Final = "kvscale.io"
VERSION: Final = "v1alpha1"
KIND: Final = "InferencePool"
PLURAL: Final = "inferencepools"
SINGULAR: Final = "inferencepool"
SHORT_NAME: Final = "kvp"
CATEGORY: Final = "kvscale"


MOST_OVERFLOW_PER_MILLION: Final = 500_000
"""Half of the time; an engine that is planned to be too small is no plan."""


class PlanningModel(ApiModel):
    """What the plan budgets for."""

    percentile: Literal[50, 90, 95, 99] | None = None
    """Percentile of the request length that the plan budgets for: 50, 90, 95 or 99. Absent: 95."""
    mode: PlanningMode | None = None
    """What the plan budgets for: Percentile (each request as long as the percentile, filled to the
    target occupancy) or OverflowProbability (the sum of what an engine's requests hold exceeds its
    memory only so often). Absent: Percentile."""
    overflow_per_million: (
        Annotated[int, Field(strict=True, ge=1, le=MOST_OVERFLOW_PER_MILLION)] | None
    ) = None
    """How often an engine's requests may exceed its memory in mode OverflowProbability, in
    millionths of the time, e.g. 10000 (1 %). Absent: 1000."""


def _minimum_fits_devices(spec: "InferencePoolSpec") -> bool:
    scaling = spec.scaling
    if scaling is None or scaling.max_devices is None:
        return True
    minimum = scaling.min_replicas or 1
    return all(
        target.devices is None
        or target.devices.count is None
        or minimum * target.devices.count <= scaling.max_devices
        for target in spec.targets
    )


class InferencePoolSpec(ApiModel):
    """What is wanted of the pool. Only targets is required."""

    rules: ClassVar = (
        Rule(
            "!has(self.scaling) || !has(self.scaling.maxDevices) || self.targets.all(t,"
            " !has(t.devices) || !has(t.devices.count) ||"
            " (has(self.scaling.minReplicas) ? self.scaling.minReplicas : 1) * t.devices.count"
            " <= self.scaling.maxDevices)",
            _minimum_fits_devices,
            "{scaling.maxDevices} is too few for minReplicas pods of devices.count devices each:"
            " raise maxDevices or lower minReplicas",
            "scaling.maxDevices",
        ),
    )

    mode: Mode | None = None
    """What kvscale may do: Auto (scale), Recommend (never write replicas) or Paused. Absent: the
    operator's default."""
    model: ModelSourceModel | None = None
    """Where the model's shape comes from. Absent: from the server's arguments."""
    targets: Annotated[
        tuple[TargetModel, ...],
        Field(
            min_length=1,
            max_length=1,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    """The workload that serves the model, e.g. [{ref: {name: llama}}]; exactly one for now."""
    metrics: MetricsModel | None = None
    """Where the engines' metrics are read."""
    traffic: TrafficModel | None = None
    """The traffic that the pool declares. Absent: learned from the metrics."""
    planning: PlanningModel | None = None
    """What the plan budgets for."""
    scaling: ScalingModel | None = None
    """How the target may move."""
