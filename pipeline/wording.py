"""Numbers, durations, sizes and keys of several columns as text for people."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from mbe_stage.forecast import Outlook
from mbe_stage.pipeline.config.model import Config

_MIDNIGHT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T00:00:00Z")


def plural(number: int, singular: str, several: str | None = None) -> str:
    """Format a number and its noun: ``1 edge``, ``89 edges``."""
    return f"{number:,} {singular if number == 1 else several or singular + 's'}"


def percent_text(share: float, digits: int | None = None, unit: str = " %") -> str:
    """Format a share as a percentage that is never 0 or 100 unless exact; by default with few digits.

    Examples
    --------
    >>> [percent_text(share) for share in (0, 0.0004, 0.094, 0.94, 0.9967, 0.9999, 1)]
    ['0 %', 'under 0.1 %', '9.4 %', '94 %', '99.7 %', 'over 99.9 %', '100 %']
    >>> percent_text(0.00001, 1), percent_text(0.9999, 0), percent_text(1.5, 0)
    ('0.1 %', '99 %', '150 %')
    """
    percent = 100 * share
    if digits is not None:
        least = 10**-digits
        shown = max(percent, least) if share > 0 else percent
        return f"{min(shown, 100 - least) if share < 1 else shown:.{digits}f}{unit}"
    if share > 0 and percent < 0.1:
        return f"under 0.1{unit}"
    if share < 1 and percent > 99.9:
        return f"over 99.9{unit}"
    is_round = percent in (0, 100) or 10 <= percent < 99.5
    return f"{percent:.0f}{unit}" if is_round or share > 1 else f"{percent:.1f}{unit}"


def amount_text(value: float) -> str:
    """Format a sum of weights, such as money: ``1,234,567.89``, ``914.80``, ``12``, ``0.004``."""
    return f"{value:,.2f}".removesuffix(".00") if abs(value) >= 1 or not value else f"{value:.4g}"


def bound_text(value: float) -> str:
    """Format a bound of a probability: ``8e-54``, ``0.02``, ``<1e-300``."""
    return f"{value:.1g}" if value >= 1e-300 else "<1e-300"


def seconds_text(seconds: float) -> str:
    """Format a duration: ``0.8 ms``, ``41 ms``, ``3.24 s``, ``2 min 05 s``, ``1 h 12 min``."""
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def found_bytes_text(n_bytes: int | None) -> str:
    """Describe the size of a file or object: ``has 4 bytes``, or ``is missing``."""
    return "is missing" if n_bytes is None else f"has {n_bytes:,} bytes"


def bytes_text(size: float) -> str:
    """Format a number of bytes in binary units.

    Examples
    --------
    >>> bytes_text(1_536 * 1024), bytes_text(212 << 20)
    ('1.5 MiB', '212 MiB')
    """
    scaled = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if scaled < 1024:
            return f"{scaled:.0f} {unit}" if scaled >= 10 or unit == "B" else f"{scaled:.1f} {unit}"
        scaled /= 1024
    return f"{scaled:.1f} TiB"


def rough_number(number: int) -> str:
    """Format a number that is known to two digits only.

    Examples
    --------
    >>> rough_number(87), rough_number(17_179_869_182), rough_number(2**200)
    ('87', '17,000,000,000', '1.6e60')
    """
    if number < 100:
        return f"{number}"
    size = log10(number)
    if size < 15:
        unit = 10 ** (floor(size) - 1)
        return f"{round(number / unit) * unit:,}"
    return f"{10 ** (size - floor(size)):.1f}e{floor(size)}"


def left_text(seconds: float) -> str:
    """Format a remaining time as roughly as it is known: ``8 s left``, ``12 min left``, ``5 days left``.

    Examples
    --------
    >>> left_text(100.0), left_text(5.4 * 86400), left_text(1e30)
    ('2 min left', '5 days left', 'more than 1,000 years left')
    """
    for unit, length, most in (("s", 1, 90), ("min", 60, 90), ("h", 3600, 36), ("days", 86400, 700)):
        if seconds < most * length:
            return f"{max(1, round(seconds / length))} {unit} left"
    years = seconds / (365.25 * 86400)
    return f"{years:,.0f} years left" if years < 1000 else "more than 1,000 years left"


def found_text(n_found: int, what: str, expected: Outlook | None, share: float | None) -> str:
    """Format the number of results and, as far as known, the expected total.

    Examples
    --------
    >>> found_text(300, "bicliques", Outlook(950, 1012, 1100), 0.3)
    '300 of about 1,000 bicliques'
    >>> found_text(300, "bicliques", Outlook(950, 5000, None), None)
    '300 of at least 950 bicliques (total unknown)'
    >>> found_text(0, "bicliques", Outlook.exactly(0), None)
    '0 of 0 bicliques'
    """
    if expected is None:
        return f"{n_found:,} {what}"
    if share is not None:
        return f"{n_found:,} of about {rough_number(expected.middle)} {what}"
    if expected.low == expected.high:
        return f"{n_found:,} of {rough_number(expected.low)} {what}"
    if expected.high is not None:
        return f"{n_found:,} of {rough_number(expected.low)} to {rough_number(expected.high)} {what}"
    if expected.low <= n_found:
        return f"{n_found:,} {what} (total not known yet)"
    return f"{n_found:,} of at least {rough_number(expected.low)} {what} (total unknown)"


def has_parts(config: Config) -> bool:
    """Return whether right keys have several columns, a time bucket or a column of graphs."""
    return config.input.by is not None or len(config.input.right_columns) > 1 or config.input.time_bucket is not None


def narrowed_key(key: object, value: str | None) -> object:
    """Return a right key with the parts that narrow it, as a JSON array; the key itself without such parts.

    Examples
    --------
    >>> narrowed_key("B00A7", '["5"]'), narrowed_key(7, None)
    ('["B00A7","5"]', 7)
    """
    return key if value is None else f"[{json.dumps(key, ensure_ascii=False)},{value[1:]}"


def group_key_text(group: Mapping[str, Any]) -> str:
    """Describe a group's key, and whether the group is a pair of left members; empty if one key alone was searched."""
    if group.get("key") is None:
        return ""
    named = "same items only" if group["key"] == "items" else group["key"]
    return f"pair, {named}" if group["n_left"] <= 2 else named


def key_parts(key: object) -> list[object] | None:
    """Return the parts of a key, or None if the key is not a JSON array with elements.

    Examples
    --------
    >>> key_parts('["B00A7",5]'), key_parts("B00A7"), key_parts("[" * 100_000)
    (['B00A7', 5], None, None)
    """
    try:
        parts = json.loads(str(key))
    except (ValueError, RecursionError):
        return None
    return parts if isinstance(parts, list) and parts else None


def day_of(part: object) -> str | None:
    """Return the day of a time bucket that begins at midnight; None for any other part."""
    text = str(part)
    return text[:10] if _MIDNIGHT.fullmatch(text) else None


def key_text(key: object) -> str:
    """Return a key as one line of text, part by part; a key without parts is unchanged.

    Examples
    --------
    >>> print(key_text('["B00A7","2024-01-08T00:00:00Z"]'), key_text("B00A7"))
    B00A7 · 2024-01-08 B00A7
    """
    parts = key_parts(key)
    return str(key) if parts is None else " · ".join(day_of(part) or str(part) for part in parts)


def first_keys(keys: Sequence[object], most: int = 8) -> str:
    """Return the first keys of a list as one line of text, and the number of the others."""
    text = ", ".join(map(key_text, keys[:most]))
    return text if len(keys) <= most else f"{text}, ... {len(keys) - most:,} more"
