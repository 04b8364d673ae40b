"""From the object that the API server stores to the core's values.

Everything is checked again here: the object may come from a file, or have been stored under an
older CRD. A bad spec is a value, Unknown(InvalidSpec), never an exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from kvscale.api.errors import describe
from kvscale.api.inferencepool import GROUP, InferencePoolSpec, PlanningModel
from kvscale.api.scaling import ScalingModel
from kvscale.api.shape import ModelSourceModel
from kvscale.api.times import parse_time
from kvscale.api.traffic import MetricsModel
from kvscale.core.decide.reasons import INVALID_SPEC
from kvscale.core.spec import ConfigMapRef, Freeze, ModelSource, PoolSpec
from kvscale.core.values import Unknown

HOLD_UNTIL: Final = f"{GROUP}/hold-until"
"""Annotation: no replicas are written before that time (RFC 3339)."""
FREEZE: Final = f"{GROUP}/freeze"
"""Annotation: the direction that is forbidden, ScaleUp or ScaleDown."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a person asks for by annotation.

    Attributes:
        hold_until: epoch seconds; None: no hold.
        freeze: the direction that is forbidden.
        error: what could not be read, with the mend; "" if all could.
    """

    hold_until: float | None = None
    freeze: Freeze = Freeze.NONE
    error: str = ""


def parse_pool(spec: Mapping[str, Any]) -> PoolSpec | Unknown:
    """The pool as the loop reads it, defaults filled in.

    Args:
        spec: `spec` of the InferencePool, raw.

    Returns:
        The pool, or Unknown(InvalidSpec) whose message names each field and the mend.
    """
    try:
        model = InferencePoolSpec.model_validate(spec, by_alias=True, by_name=False)
    except ValidationError as error:
        return Unknown(INVALID_SPEC, describe(error))
    planning = model.planning or PlanningModel()
    target = model.targets[0].to_core()
    default = PoolSpec(target)
    return PoolSpec(
        target=target,
        mode=model.mode,
        model=_source(model.model),
        metrics=(model.metrics or MetricsModel()).to_core(),
        traffic=None if model.traffic is None else model.traffic.to_core(),
        percentile=planning.percentile or default.percentile,
        scaling=(model.scaling or ScalingModel()).to_core(),
        planning_mode=planning.mode or default.planning_mode,
        overflow_per_million=planning.overflow_per_million or default.overflow_per_million,
    )


def _source(model: ModelSourceModel | None) -> ModelSource | None:
    if model is None:
        return None
    if model.shape is not None:
        return model.shape.to_core()
    if (reference := model.config_map_ref) is not None:
        default = ConfigMapRef(reference.name)
        return ConfigMapRef(
            reference.name,
            reference.config_key or default.config_key,
            reference.quantization_key or default.quantization_key,
        )
    return model.preset


def parse_annotations(annotations: Mapping[str, str]) -> Annotations:
    """Hold and freeze; what cannot be read is reported in `error`, not guessed."""
    hold, hold_error = _hold(annotations.get(HOLD_UNTIL, ""))
    freeze, freeze_error = _freeze(annotations.get(FREEZE, ""))
    return Annotations(hold, freeze, "; ".join(filter(None, (hold_error, freeze_error))))


def _hold(text: str) -> tuple[float | None, str]:
    if not text:
        return None, ""
    try:
        return parse_time(text), ""
    except ValueError as error:
        return None, f"annotation {HOLD_UNTIL}: {error}"


def _freeze(text: str) -> tuple[Freeze, str]:
    try:
        return Freeze(text), ""
    except ValueError:
        return Freeze.NONE, f'annotation {FREEZE}: "{text}" is not known: use ScaleUp or ScaleDown'
