"""The base of configuration sections: a frozen model that refuses unknown keys, and booleans in place of numbers.

`Section` is the base of built-in sections and of those of problems and derived outputs. `read_section` applies the same
rules to any other pydantic model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, get_args, is_typeddict

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from mbe_stage.pipeline.config.setting_names import did_you_mean

_NO_BOOLEAN = "expected a name or a number; YAML reads yes, no, on, off, true and false as booleans: quote the name"

# Messages by pydantic's error type, without its suffix `_type` or `_parsing`.
_EXPECTED = {
    "bool": "expected true or false",
    "int": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a whole number of fewer digits",
    "float": "expected a number",
    "string": "expected text; quote it",
    **dict.fromkeys(("list", "tuple", "set", "frozen_set"), "expected a list"),
    **dict.fromkeys(("dict", "model", "model_attributes"), "expected keys and their values"),
    "invalid_key": "expected keys that are text",
    "missing": "is missing",
}
_ANYTHING = (bool, Any, object, dict, list, tuple, set, frozenset, Mapping)


class Section(BaseModel):
    """The base of a section's model."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_but_where_one_is_meant(cls, value: Any, info: ValidationInfo) -> Any:
        if _is_a_wrong_boolean(cls.model_fields[str(info.field_name)].annotation, value):
            raise ValueError(_NO_BOOLEAN)
        return value


def read_section(model: type[BaseModel], name: str, value: Any) -> BaseModel:
    """Read the section of that name from plain values.

    Raises
    ------
    pydantic.ValidationError
        An unknown key or a wrong value, at ``name.key``.
    """
    if isinstance(value, model):
        return value
    if not isinstance(value, Mapping):
        raise refusal((name,), "expected keys and their values, or {} for the defaults", value)
    fields = model.model_fields
    known = {*fields, *(field.alias for field in fields.values() if field.alias)}
    for key, each in value.items():
        if key not in known:
            raise refusal((name, key), "unknown key", each, kind="extra_forbidden")
        if key in fields and _is_a_wrong_boolean(fields[key].annotation, each):
            raise refusal((name, key), _NO_BOOLEAN, each)
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        message = message_of(first, fields.get(str(first["loc"][0])) if first["loc"] else None)
        raise refusal((name, *first["loc"]), message, first["input"], kind=first["type"]) from None


def refusal(location: tuple[int | str, ...], message: str, value: Any, kind: str = "value_error") -> ValidationError:
    """Return the error for a value at a key of the configuration."""
    # The message is a template's parameter, because it may hold braces.
    error = PydanticCustomError(kind, "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "configuration", [InitErrorDetails(type=error, loc=location, input=value)]
    )


def message_of(error: ErrorDetails, field: FieldInfo | None = None) -> str:
    """Return the message of one error; errors of the model's own code lose pydantic's prefix.

    Parameters
    ----------
    field : FieldInfo, optional
        The field of the value; for a value that is too large the message names both bounds.
    """
    context = error.get("ctx", {})
    if "ge" in context:
        return f"expected {context['ge']} or more"
    if "le" in context:
        return f"expected {_up_to(context['le'], field)}"
    raised = context.get("error")
    if isinstance(raised, ValueError | AssertionError) and str(raised):
        return str(raised)
    if "message" in context:
        # Made by `refusal`.
        return error["msg"]
    if error["type"] == "literal_error":
        choices = [choice.strip("'") for choice in re.split(r", | or ", str(context["expected"]))]
        return f"{did_you_mean(str(error['input']), choices)}expected one of {', '.join(choices)}"
    kind = error["type"].removesuffix("_type").removesuffix("_parsing")
    # Other errors keep pydantic's words after "Input should be".
    return _EXPECTED.get(kind) or re.sub(r"^Input should (be )?", "expected ", error["msg"])


def _up_to(largest: float, field: FieldInfo | None) -> str:
    bounds = [] if field is None else field.metadata
    # Only members of a union have bounds. They are named if the field has one pair.
    is_its_own = any(isinstance(bound, Le) and bound.le == largest for bound in bounds)
    smallest = [bound.ge for bound in bounds if isinstance(bound, Ge)] if is_its_own else []
    return f"{smallest[0]:,} to {largest:,}" if smallest else f"{largest:,} or less"


def is_section(annotation: Any) -> bool:
    """Return whether a field holds a model of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_a_wrong_boolean(annotation: Any, value: Any) -> bool:
    # Python treats a boolean as a number: `left: no`, as YAML reads it, would be column 0.
    return _holds_a_boolean(value) and not _takes_one(annotation)


def _holds_a_boolean(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_a_boolean, (*value, *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_a_boolean, value))
    return isinstance(value, bool)


def _takes_one(annotation: Any) -> bool:
    """Return whether a boolean is allowed at this place or within; types with rules of their own decide themselves."""
    if isinstance(annotation, bool) or annotation in _ANYTHING:
        return True
    own_rules = is_section(annotation) or is_dataclass(annotation) or is_typeddict(annotation)
    return own_rules or any(map(_takes_one, get_args(annotation)))
