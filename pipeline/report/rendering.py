"""Templates of the report in HTML: every text is escaped unless it is HTML already (`markupsafe.Markup`)."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from mbe_stage.pipeline.report.wording import count, key, percent, visible
from mbe_stage.pipeline.wording import plural, seconds_text

__all__ = ["fragment", "render"]


# Line breaks between tags are for readers of a template.
_BREAK = re.compile(r"(?<=[>}])\n\s*(?=[<{])")


def _source(name: str) -> str:
    text = files("mbe_stage.pipeline.report").joinpath("templates", name).read_text(encoding="utf-8")
    return _BREAK.sub("", text)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=visible,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
    )
    environment.filters.update(count=count, key=key, percent=percent, plural=plural, seconds=seconds_text)
    environment.globals.update(key=key)
    return environment


def render(template: str, **values: Any) -> Markup:
    """Return a whole template of the folder `templates`."""
    return Markup(_environment().get_template(template).render(**values))


def fragment(template: str, macro: str, *values: Any) -> Markup:
    """Return what one macro of a template makes of some values."""
    return Markup(getattr(_environment().get_template(template).module, macro)(*values))
