"""Numbers, the user's keys and templates as HTML; text is escaped unless it is `markupsafe.Markup`."""

from __future__ import annotations

import functools
import html
import math
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from mbe_stage.pipeline.wording import amount_text, day_of, key_parts, percent_text, plural, seconds_text

if TYPE_CHECKING:
    from jinja2 import Environment

_LONGEST_KEY = 80
_NEVER_BROKEN = 16
_LONGEST_TOOLTIP = 500
# Control characters would vanish or break the page, and direction marks would disguise a key. They are replaced by a
# picture or the code point.
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **{code: f"⟨U+{code:04X}⟩" for code in _DIRECTIONS},
}
# Line breaks between tags only serve the readers of a template.
_BREAK = re.compile(r"(?<=[>}])\n\s*(?=[<{])")


def visible(value: object) -> str:
    """Replace invisible characters in text; HTML is unchanged."""
    return value if isinstance(value, Markup) else str(value).translate(_VISIBLE)


def escape(value: object) -> Markup:
    """Escape text for an HTML element or a quoted attribute."""
    return Markup(html.escape(str(value).translate(_VISIBLE), quote=True))


def key(value: object) -> Markup:
    """Format a user's key as HTML: escaped, isolated from the direction of the surrounding text, cut if very long.

    Examples
    --------
    >>> str(key("<b>"))
    '<bdi>&lt;b&gt;</bdi>'
    """
    whole = str(value)
    if not whole.strip(" "):
        return Markup(f'<bdi class="empty">({"blank" if whole else "empty"})</bdi>')
    if len(whole) <= _LONGEST_KEY:
        return Markup(f"<bdi>{_breakable(whole)}</bdi>")
    tooltip = whole if len(whole) <= _LONGEST_TOOLTIP else whole[:_LONGEST_TOOLTIP] + "…"
    shown = f"{whole[: _LONGEST_KEY - 20]}…{whole[-16:]}"
    return Markup(f'<bdi title="{escape(tooltip)}">{_breakable(shown)}</bdi>')


def tuple_key(value: object) -> Markup:
    """Format a key of several columns (a JSON array) part by part; any other key like `key`.

    A time bucket that begins at midnight is shown as its day.

    Examples
    --------
    >>> str(tuple_key('["B00A7",5]'))
    '<span class="parts"><bdi>B00A7</bdi> · <bdi>5</bdi></span>'
    >>> str(tuple_key('["B00A7","2024-01-08T00:00:00Z"]'))
    '<span class="parts"><bdi>B00A7</bdi> · <bdi title="2024-01-08T00:00:00Z">2024-01-08</bdi></span>'
    """
    parts = key_parts(value)
    if parts is None:
        return key(value)
    return Markup(f'<span class="parts">{" · ".join(_part(part) for part in parts)}</span>')


def _part(value: object) -> str:
    day = day_of(value)
    return key(value) if day is None else f'<bdi title="{value}">{day}</bdi>'


def _breakable(text: str) -> str:
    """Escape a text, and allow line breaks within long dotted names and paths."""
    if len(text) <= _NEVER_BROKEN:
        return escape(text)
    return "<wbr>".join(escape(piece) for piece in re.split(r"(?<=[./:_-])(?=\w)", text))


def count(value: int) -> str:
    """Format an exact number with separators: ``1,826,587``."""
    return f"{value:,}"


def compact(value: int) -> str:
    """Format a number in at most five characters, for chart labels.

    Examples
    --------
    >>> [compact(n) for n in (7, 999, 1500, 54_458_949, 10**6)]
    ['7', '999', '1.5k', '54M', '1M']
    """
    for unit, suffix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= unit:
            scaled = math.floor(value * 10 / unit) / 10
            return f"{scaled:.0f}{suffix}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{suffix}"
    return str(value)


def percent(part: float, whole: float) -> str:
    """Format a share; it shows 0 % or 100 % only if that is exact, and stays on one line."""
    share = part / whole if whole else 0.0
    if 0 < part < whole:
        # For very large numbers the share may round to 0 or 1.
        share = min(max(share, 1e-9), 1 - 1e-9)
    return percent_text(share).replace(" ", "\u00a0")


def _source(name: str) -> str:
    text = files("mbe_stage.pipeline.report").joinpath("templates", name).read_text(encoding="utf-8")
    return _BREAK.sub("", text)


@functools.cache
def _environment() -> Environment:
    # Tables in Markdown use this module without templates, so load Jinja only here.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=visible,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
    )
    environment.filters.update(
        amount=amount_text, count=count, key=key, percent=percent, plural=plural, seconds=seconds_text
    )
    environment.globals.update(key=key)
    return environment


def render(template: str, **values: Any) -> Markup:
    """Return a whole template of the folder `templates`."""
    return Markup(_environment().get_template(template).render(**values))


def fragment(template: str, macro: str, *values: Any) -> Markup:
    """Return the output of a template's macro for some values."""
    return Markup(getattr(_environment().get_template(template).module, macro)(*values))
