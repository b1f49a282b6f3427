"""Keys of several columns, as people read them: the published text is the JSON array of the parts."""

from __future__ import annotations

import json
import re

from mbe_stage.pipeline.config.model import Config

__all__ = ["day_of", "has_parts", "key_parts", "key_text"]

_MIDNIGHT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T00:00:00Z")


def has_parts(config: Config) -> bool:
    """Whether right keys are made of several columns, or have a bucket of time."""
    return len(config.input.right_columns) > 1 or config.input.time_bucket is not None


def key_parts(key: object) -> list[object] | None:
    """The parts of a key; None where it is no JSON array of some.

    Examples
    --------
    >>> key_parts('["B00A7",5]'), key_parts("B00A7")
    (['B00A7', 5], None)
    """
    try:
        parts = json.loads(str(key))
    except ValueError:
        return None
    return parts if isinstance(parts, list) and parts else None


def day_of(part: object) -> str | None:
    """The day of a bucket of time that begins at midnight; None for another part."""
    text = str(part)
    return text[:10] if _MIDNIGHT.fullmatch(text) else None


def key_text(key: object) -> str:
    """A key in a line of text, part by part; one without parts as it is.

    Examples
    --------
    >>> print(key_text('["B00A7","2024-01-08T00:00:00Z"]'), key_text("B00A7"))
    B00A7 · 2024-01-08 B00A7
    """
    parts = key_parts(key)
    return str(key) if parts is None else " · ".join(day_of(part) or str(part) for part in parts)
