"""Check the prose of the documents: ``python tools/prose.py [FILE]...``.

Sentences have at most 40 words and a median of at most 18 in each file, lines of prose at most 100 characters. Code,
tables, lists and headings are left out of the count of words. Only the standard library is used.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 40
MEDIAN_WORDS = 18
MOST_CHARACTERS = 100
# A median of fewer sentences is meaningless.
_FEWEST_SENTENCES = 5

_FENCE = re.compile(r"\s*(```|~~~)")
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_OTHER = re.compile(r"#|\||<|\[[^\]]+\]:\s|    ")
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
_CODE = re.compile(r"(`+).+?\1")
_END = re.compile(r"""(?<=[.!?])(?:["')*_]*)\s+(?=["'(*_]*[A-Z0-9\x00])""")
_GLUE = re.compile(r"\b(?:whoever|whomever|somebody|anybody|of whom)\b|^Of\s", re.IGNORECASE)


class Sentence(NamedTuple):
    """A sentence of a document, and the line where its paragraph starts."""

    line: int
    text: str

    @property
    def n_words(self) -> int:
        """Number of words; a piece of code, a number and a link count as one each."""
        return len(re.findall(r"[\w\x00][\w\x00'’.,/%×·-]*", self.text))


def documents() -> list[Path]:
    """Return the Markdown files for readers, without generated ones and records of measurements."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    return sorted(path for path in found if not is_generated(path))


def is_generated(path: Path) -> bool:
    """Return whether the file is generated, or an unchanged record."""
    return path.read_text(encoding="utf-8").startswith(("<!-- generated", "<!-- record"))


def faults(path: Path) -> Iterator[str]:
    """Yield one line for each fault of a document."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in _outside_of_code(lines):
        if len(line) > MOST_CHARACTERS and not re.match(r"\s*(#|\||<)|    ", line) and " " in line.strip():
            yield f"{name}:{number}: a line of {len(line)} characters; at most {MOST_CHARACTERS}"
    found = sentences(lines)
    for sentence in found:
        start = " ".join(sentence.text.replace("\x00", "…").split()[:8])
        if sentence.n_words > MOST_WORDS:
            yield f"{name}:{sentence.line}: a sentence of {sentence.n_words} words; at most {MOST_WORDS}: {start} ..."
        if glue := _GLUE.search(sentence.text):
            yield f"{name}:{sentence.line}: {glue[0].strip()!r}; name the subject: {start} ..."
    middle = median([sentence.n_words for sentence in found] or [0])
    if len(found) >= _FEWEST_SENTENCES and middle > MEDIAN_WORDS:
        yield f"{name}: a median of {middle:g} words a sentence; at most {MEDIAN_WORDS}"


def sentences(lines: list[str]) -> list[Sentence]:
    """Return the sentences of all paragraphs."""
    found = list[Sentence]()
    for first, paragraph in _paragraphs(lines):
        text = _LINK.sub(r"\1", _CODE.sub("\x00", paragraph))
        found += [Sentence(first, each) for each in _END.split(text) if each.strip()]
    return found


def _paragraphs(lines: list[str]) -> Iterator[tuple[int, str]]:
    first, held, in_list = 0, list[str](), False
    for number, line in [*_outside_of_code(lines), (len(lines) + 1, "")]:
        if not line.strip():
            in_list = in_list and bool(held)
        starts_list = bool(_LIST_ITEM.match(line))
        indented = line.startswith(" ")
        if starts_list or (in_list and indented):
            in_list = True
        elif line.strip() and not _OTHER.match(line) and not (in_list and held):
            if in_list and not indented and lines[number - 2].strip():
                continue
            in_list = False
            first = first if held else number
            held.append(line.strip())
            continue
        if held:
            yield first, " ".join(held)
            held = []


def _outside_of_code(lines: list[str]) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            yield number, ""
        elif not fence:
            yield number, line


def main(*names: str) -> int:
    """Print the faults of the named documents, or of all; returns the exit code."""
    paths = [Path(name).resolve() for name in names] or documents()
    if missing := [str(path) for path in paths if not path.is_file()]:
        print(f"error: {', '.join(missing)}: no such file; expected Markdown files", file=sys.stderr)
        return 2
    found = [fault for path in paths for fault in faults(path)]
    print("\n".join(found) if found else "prose: nothing to mend")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
