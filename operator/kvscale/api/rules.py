"""What all API models share, and rules that hold between fields.

A rule stands once, in two spellings side by side: CEL for the API server, Python for whoever reads
an object that no API server has checked (an older CRD, a file). Its message is one template, from
which the CRD's `messageExpression` and the operator's own error are both made.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError

RULE_ERROR: Final = "kvscale_rule"
"""Type of the validation error that a broken rule raises."""

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9.]+)\}")

PositiveInt = Annotated[int, Field(strict=True, ge=1, le=2_147_483_647)]
Replicas = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Tokens = Annotated[int, Field(strict=True, ge=1, le=100_000_000)]
Degree = Annotated[int, Field(strict=True, ge=1, le=1024)]
DnsLabel = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DnsSubdomain = Annotated[
    str,
    Field(
        max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    ),
]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of one object.

    Attributes:
        cel: true when the rule holds; `self` is the object.
        holds: the same in Python, of the pydantic model.
        message: what is wrong and the mend; `{name}` stands for the value of a field (its API
            name, dotted for a nested one) that is set whenever the rule is broken.
        field: the field to blame, by its API name.
        reason: the API server's cause of the error.
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str
    field: str
    reason: str = "FieldValueInvalid"

    def render(self, values: Mapping[str, Any]) -> str:
        """The message, with values of the object (by API name) put in."""

        def value(match: re.Match[str]) -> str:
            found: Any = values
            for part in match[1].split("."):
                found = found[part]
            return str(found)

        return _PLACEHOLDER.sub(value, self.message)

    def to_schema(self) -> dict[str, str]:
        """An item of `x-kubernetes-validations`."""
        schema = {"rule": self.cel, "message": _PLACEHOLDER.sub(r"\1", self.message)}
        if fields := _PLACEHOLDER.findall(self.message):
            # format(), not string() and +: those have no bounded size for the cost estimate
            template = _PLACEHOLDER.sub("%s", self.message.replace("%", "%%")).replace("'", "\\'")
            values = ", ".join(f"self.{field}" for field in fields)
            schema["messageExpression"] = f"'{template}'.format([{values}])"
        return {**schema, "fieldPath": f".{self.field}", "reason": self.reason}


class ApiModel(BaseModel):
    """An object of the API: camelCase outside, frozen, tolerant of fields it does not know.

    Unknown fields are ignored because the CRD may be newer than the operator; the API server
    refuses or prunes them.
    """

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        allow_inf_nan=False,
        # Built on first use: a command of the line uses few of them, and a nested one never alone.
        defer_build=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                text = rule.render(self.model_dump(by_alias=True, exclude_none=True))
                raise PydanticCustomError(RULE_ERROR, "{text}", {"text": text, "field": rule.field})
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The model's schema with its rules."""
        schema = handler(core_schema)
        if cls.rules:
            own = handler.resolve_ref_schema(schema)
            own["x-kubernetes-validations"] = [rule.to_schema() for rule in cls.rules]
        return schema
