"""Why there is no number: what every reading and every rule answers instead of guessing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no number is given, and what to change.

    Attributes:
        reason: CamelCase and constant ("UnsupportedLayerKind", "ModelDoesNotFit", ...).
        field: the setting at fault, in the user's own words ("--max-model-len", "layer_types").
        message: one sentence with the mend.
    """

    reason: str
    field: str
    message: str
