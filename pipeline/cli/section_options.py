"""Options from the model of a section: one for each field with a description; one-letter names get one dash.

Values go to the model as text. Its own messages say what it expects, in one line, with the option's name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mbe_stage.pipeline.cli.options import Parameter
from mbe_stage.pipeline.config.strict_yaml import parse_yaml

_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}


def section_parameters(model: type[BaseModel], section: str, panel: str) -> tuple[Parameter, ...]:
    """Return the options of a problem's section: ``--key``, or ``-k``."""
    return tuple(
        _parameter(key, field, section, f"-{key}" if len(key) == 1 else f"--{_dashed(key)}", panel)
        for key, field in model.model_fields.items()
        if field.description
    )


def output_parameters(model: type[BaseModel], name: str, about: str) -> tuple[Parameter, ...]:
    """Return the options of a derived output: ``--name`` makes it, ``--name-key`` sets a key and makes it."""
    panel = f"Output {name}"
    switch = Parameter(
        _identifier(name),
        Annotated[bool, typer.Option(f"--{_dashed(name)}", help=about, rich_help_panel=panel, show_default=False)],
        key=name,
        default=False,
        value=lambda given: {} if given else None,
    )
    keys = (
        _parameter(key, field, name, f"--{_dashed(name)}-{_dashed(key)}", panel)
        for key, field in model.model_fields.items()
        if field.description
    )
    return (switch, *keys)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A value type on the command line: its metavar, whether it repeats, and its conversion from text."""

    metavar: str
    repeatable: bool = False
    value: Callable[[Any], Any] = lambda text: text


def _parameter(key: str, field: FieldInfo, section: str, option: str, panel: str) -> Parameter:
    name, full_key = _identifier(f"{section}_{key}"), f"{section}.{key}"
    kind = _without_none(field.annotation)
    if kind is bool:
        return _flag(name, full_key, field, option, panel)
    given = _kind(kind, option)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    info = typer.Option(
        option,
        help=_help(field, given.repeatable),
        metavar=str(extra.get("metavar", given.metavar)),
        rich_help_panel=panel,
        show_default=False,
    )
    annotation = Annotated[list[str] | None, info] if given.repeatable else Annotated[str | None, info]
    return Parameter(name, annotation, full_key, value=given.value)


def _flag(name: str, key: str, field: FieldInfo, option: str, panel: str) -> Parameter:
    """Make a flag: if the default is known, the option that changes it; else one for each value."""
    if field.default is True:
        words, value = f"--no-{option[2:]}", lambda given: False if given else None
    elif field.default is False:
        words, value = option, lambda given: True if given else None
    else:
        words, value = f"{option}/--no-{option[2:]}", lambda given: given
    info = typer.Option(words, help=_help(field, False), rich_help_panel=panel, show_default=False)
    return Parameter(name, Annotated[bool | None, info], key, value=value)


def _kind(kind: Any, option: str) -> _Kind:
    if kind in _METAVARS:
        return _Kind(_METAVARS[kind])
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        by_text = {str(member): member for member in members}
        return _Kind(f"<{'|'.join(by_text)}>", value=lambda text: by_text.get(text, text))
    if origin in (tuple, list, set, frozenset):
        each = _kind(_without_none(members[0]), option) if members else _Kind("TEXT")
        return _Kind(each.metavar, repeatable=True, value=lambda texts: [each.value(text) for text in texts])
    if _is_union(kind) and set(members) <= set(_METAVARS):
        return _Kind("TEXT" if str in members else "X")
    return _Kind("YAML", value=lambda text: parse_yaml(text, f"command line: {option}"))


def _without_none(annotation: Any) -> Any:
    if not _is_union(annotation):
        return annotation
    members = [each for each in get_args(annotation) if each is not type(None)]
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - of a sequence


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _help(field: FieldInfo, repeatable: bool) -> str:
    """Return the field's description, with default and bounds in brackets, as for our options."""
    notes = [*_default(field.default), *_bounds(field.metadata), *(["repeatable"] if repeatable else [])]
    text = str(field.description).rstrip(".")
    return f"{text} ({'; '.join(notes)})." if notes else f"{text}."


def _default(value: Any) -> Sequence[str]:
    return [str(value)] if isinstance(value, int | float | str) and not isinstance(value, bool) and value != "" else []


def _bounds(metadata: Sequence[Any]) -> Sequence[str]:
    words: dict[type, Callable[[Any], str]] = {
        Ge: lambda bound: f"at least {bound.ge}",
        Gt: lambda bound: f"above {bound.gt}",
        Le: lambda bound: f"at most {bound.le}",
        Lt: lambda bound: f"below {bound.lt}",
    }
    return [words[type(bound)](bound) for bound in metadata if type(bound) in words]


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _identifier(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name)
