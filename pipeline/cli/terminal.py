"""Text that is safe to print: keys, paths and column names come from files, and a terminal obeys what they hold."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, TextIO

__all__ = ["TIME", "VisibleFormatter", "json_line", "print_json", "say", "shortened", "visible", "visible_lines"]

TIME = "%Y-%m-%d %H:%M:%S"
"""How log lines are dated."""

# What moves a cursor, sets a colour or a title, or turns text around: C0 and C1 controls, DEL, bidirectional marks,
# embeddings, overrides and isolates, line and paragraph separators; and lone surrogates, which cannot be printed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Characters of one line; longer ones lose their middle. Keys and messages that quote them may hold megabytes.
_LINE = 4_000


def visible(text: object) -> str:
    r"""The text on one line, with every character that a terminal would act upon written as an escape.

    A backslash stays as it is, so that paths stay as they are: what is printed cannot be read back; `--json` can.

    Examples
    --------
    >>> print(visible("red \x1b[31m, two\nlines, turned \u202e"))
    red \x1b[31m, two\nlines, turned \u202e
    """
    return _UNSAFE.sub(_escaped, str(text))


def visible_lines(text: str) -> str:
    """As `visible`, but lines stay lines: for text whose line ends are our own, such as a traceback."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: object, most: int) -> str:
    """At most about `most` characters: of longer text both ends, and between them how long it is.

    Examples
    --------
    >>> shortened("a" * 1_000_000, 12)
    'aaaaaa[... 1,000,000 characters ...]aaaaaa'
    """
    whole = str(text)
    if len(whole) <= most:
        return whole
    end = most // 2
    return f"{whole[: most - end]}[... {len(whole):,} characters ...]{whole[len(whole) - end :]}"


def say(text: object, file: TextIO | None = None) -> None:
    """Print one line that is safe and of bounded length, on stdout by default."""
    print(visible(shortened(text, _LINE)), file=file or sys.stdout, flush=True)


def json_line(values: dict[str, Any]) -> str:
    """JSON on one line: exact, and safe too, because what is unsafe is written as JSON writes escapes."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class VisibleFormatter(logging.Formatter):
    """Log lines that are safe to print; a traceback below one keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, shortened and without control characters."""
        return visible(shortened(super().formatMessage(record), _LINE))

    def formatException(self, ei: Any) -> str:
        """The traceback, without control characters."""
        return visible_lines(super().formatException(ei))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def print_json(values: dict[str, Any]) -> None:
    """One object on one line, exact and safe to print."""
    print(json_line(values), flush=True)
