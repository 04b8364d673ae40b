"""Every reason that a decision or a condition may give, in one place.

Reasons are an interface: people alert on them. A reason is added, never renamed.
"""

from typing import Final

# Why nothing is decided or written.
INVALID_SPEC: Final = "InvalidSpec"
TARGET_NOT_FOUND: Final = "TargetNotFound"
CONFLICTING_AUTOSCALER: Final = "ConflictingAutoscaler"
CONFLICTING_WRITER: Final = "ConflictingWriter"
PAUSED: Final = "Paused"
ON_HOLD: Final = "OnHold"
SCALED_TO_ZERO: Final = "ScaledToZero"
CAPACITY_UNKNOWN: Final = "CapacityUnknown"
WRITE_PENDING: Final = "WritePending"
WRITE_FAILED: Final = "WriteFailed"

# What gave the number.
AS_NEEDED: Final = "AsNeeded"
FIRST_SIZE: Final = "FirstSize"
FLOOR_ON_UNKNOWN: Final = "FloorOnUnknown"
HOLD_ON_UNKNOWN: Final = "HoldOnUnknown"
FOUND_WRITTEN: Final = "FoundWritten"

# What kept the number from being what was wanted.
TOO_FEW_REPLICAS: Final = "TooFewReplicas"
TOO_MANY_REPLICAS: Final = "TooManyReplicas"
WITHIN_TOLERANCE: Final = "WithinTolerance"
SCALE_UP_STABILIZED: Final = "ScaleUpStabilized"
SCALE_DOWN_STABILIZED: Final = "ScaleDownStabilized"
SCALE_UP_LIMIT: Final = "ScaleUpLimit"
SCALE_DOWN_LIMIT: Final = "ScaleDownLimit"
NOT_PLACEABLE: Final = "NotPlaceable"
STOCK_OUT: Final = "StockOut"
REMOVAL_NOT_PROVEN: Final = "RemovalNotProven"
FROZEN: Final = "Frozen"

# Demand that is not known.
NO_READY_PODS: Final = "NoReadyPods"
NO_SAMPLES: Final = "NoSamples"
STALE_SAMPLES: Final = "StaleSamples"
ENGINES_SILENT: Final = "EnginesSilent"

# Conditions that hold.
RESOLVED: Final = "Resolved"
COMPUTED: Final = "Computed"
REPORTED: Final = "Reported"
FRESH: Final = "Fresh"
ENGINE_AGREES: Final = "EngineAgrees"
ENGINE_DIFFERS: Final = "EngineDiffers"
NOT_REPORTED: Final = "NotReported"
NOT_DECLARED: Final = "NotDeclared"
NOT_MEASURED: Final = "NotMeasured"
WITHIN_DECLARED: Final = "WithinDeclared"
ABOVE_DECLARED: Final = "AboveDeclared"
DECIDED: Final = "Decided"
NOT_LIMITED: Final = "NotLimited"
NO_CONFLICT: Final = "NoConflict"
