"""Numbers with units in a configuration: durations such as ``7d``, sizes such as ``512MiB``."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_WRITTEN = re.compile(r"([0-9]+)([smhdw])", re.ASCII)

LONGEST = 100 * 366 * 86_400
"""Maximum duration in seconds: a century."""


def parse_duration(text: str) -> int:
    """Parse a duration into seconds: a whole number with a unit s, m, h, d or w; ``0`` needs no unit.

    Raises
    ------
    ValueError
        It has another form, or is longer than a century.

    Examples
    --------
    >>> parse_duration("7d") == parse_duration("1w") == 604800
    True
    """
    written = _WRITTEN.fullmatch(text.strip())
    if written is None and text.strip() != "0":
        raise ValueError("expected a whole number and one of the units s, m, h, d and w, such as 7d")
    seconds = 0 if written is None else int(written[1]) * _SECONDS[written[2]]
    if seconds > LONGEST:
        raise ValueError("expected at most a century")
    return seconds


def parse_bytes(text: str) -> int:
    """Parse a number of bytes with an optional unit: ``"512MiB"``, ``"2 GB"``, ``"65536"``.

    Examples
    --------
    >>> parse_bytes("1.5GiB")
    1610612736
    """
    units = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
    stripped = text.strip().lower()
    number = stripped.rstrip("kmgib ")
    unit = stripped[len(number) :].strip()
    try:
        return int(float(number) * units[unit])
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number of bytes: expected for example 512MiB, 2GB or 65536") from None
