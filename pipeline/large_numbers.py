"""Whole numbers of any size as text; Python itself refuses to convert an `int` of more than 4300 digits."""

from __future__ import annotations

from decimal import Decimal

# Maximum digits of a readable line.
_MOST_DIGITS = 60
# From this number on, two digits and a power of ten are shorter.
_MOST_WHOLE = 10_000


def digits_text(number: int) -> str:
    """Return all digits and nothing else.

    Examples
    --------
    >>> digits_text(2**70), len(digits_text(10**9999))
    ('1180591620717411303424', 10000)
    """
    return str(Decimal(number))


def number_of(text: str) -> int | None:
    """Return the number with this `digits_text`; None if there is none.

    Examples
    --------
    >>> number_of("007"), number_of("1e3"), number_of("12")
    (None, None, 12)
    """
    if not (text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        return None
    return int(Decimal(text))


def grouped_text(number: int) -> str:
    """Return the digits in groups of three, or an approximation if there are too many to read.

    Examples
    --------
    >>> grouped_text(1826587), grouped_text(10**80)
    ('1,826,587', 'about 1e80 (81 digits)')
    """
    n_digits = len(digits_text(number))
    return f"{Decimal(number):,}" if n_digits <= _MOST_DIGITS else f"about {short_text(number)} ({n_digits:,} digits)"


def short_text(number: int) -> str:
    """Format with at most two digits and a power of ten, from five digits on.

    Examples
    --------
    >>> short_text(9_999), short_text(1_326_587_000), short_text(10**80)
    ('9,999', '1.3e9', '1e80')
    """
    if number < _MOST_WHOLE:
        return f"{number:,}"
    first, _, power = f"{Decimal(number):.1e}".partition("e+")
    return f"{first.removesuffix('.0')}e{power}"
