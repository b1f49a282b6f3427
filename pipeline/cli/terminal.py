"""Text that is safe to print: keys, paths and column names come from files, and may hold terminal commands."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, TextIO

TIME = "%Y-%m-%d %H:%M:%S"
"""Date format of log lines."""

# Characters that move a cursor, set a colour or title, or reverse text: C0 and C1 controls, DEL, bidirectional marks,
# embeddings, overrides and isolates, line and paragraph separators. Also lone surrogates, which cannot be printed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST_LINE = 4_000
"""Characters of a line; longer ones lose their middle. Keys, and messages with keys, may hold megabytes."""


def visible(text: object) -> str:
    r"""Return the text on one line, with every character that a terminal would act upon written as an escape.

    Backslashes are unchanged, so paths stay readable. The text cannot be converted back; use `--json` for that.

    Examples
    --------
    >>> print(visible("red \x1b[31m, two\nlines, turned \u202e"))
    red \x1b[31m, two\nlines, turned \u202e
    """
    return _UNSAFE.sub(_escaped, str(text))


def visible_lines(text: str) -> str:
    """Make text visible but keep its lines, for text with our own line ends, such as a traceback."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: object, most: int) -> str:
    """Return at most about `most` characters: longer text becomes both ends, with its length between them.

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
    print(visible(shortened(text, LONGEST_LINE)), file=file or sys.stdout, flush=True)


def json_line(values: dict[str, Any]) -> str:
    """Return JSON on one line: exact, and safe because unsafe characters become JSON escapes."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class VisibleFormatter(logging.Formatter):
    """A formatter for log lines that are safe to print; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, shortened and without control characters."""
        return visible(shortened(super().formatMessage(record), LONGEST_LINE))

    def formatException(self, ei: Any) -> str:
        """Return the traceback, without control characters."""
        return visible_lines(super().formatException(ei))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def print_json(values: dict[str, Any]) -> None:
    """Print one object on one line, exact and safe to print."""
    print(json_line(values), flush=True)
