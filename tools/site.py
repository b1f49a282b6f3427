"""Build the documentation as a site, strictly: ``python tools/site.py``.

The pages and their link targets are copied below ``build/docs/source`` with the repository's folders, so that links
work in both. A link to a missing page, anchor or file gives exit code 1. Only the standard library is used; the builder
is a separate program.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "docs" / "source"
_COPIED = ("docs", "configs", "examples", "benchmarks")
_SUFFIXES = (".md", ".yaml", ".py", ".txt", ".json", ".svg", ".png")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|src=\"([^\"]+)\"")
_CODE = re.compile(r"^\s*```.*?^\s*```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def copy() -> list[str]:
    """Copy the pages; return a line for each link to a missing file."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    files = [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    files += [path for folder in _COPIED for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES]
    for path in files:
        inside = path.relative_to(ROOT)
        target = SOURCE / ("index.md" if inside == Path("README.md") else inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return [fault for path in files if path.suffix == ".md" for fault in missing(path)]


def missing(path: Path) -> list[str]:
    """Return a line for each link of a page to a file that is not copied."""
    text = _CODE.sub("", path.read_text(encoding="utf-8"))
    found = []
    for link in _LINK.finditer(text):
        name = link[1] or link[2]
        if not name.startswith(("http:", "https:", "mailto:")):
            inside = (path.parent / name).resolve().relative_to(ROOT)
            if not (SOURCE / inside).is_file():
                found.append(f"{path.relative_to(ROOT)}: {name} is not there")
    return found


def main() -> int:
    """Copy and build; returns the exit code."""
    if faults := copy():
        print("\n".join(faults))
        return 1
    builder = Path(sys.executable).with_name("zensical")
    command = [str(builder), "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
        return 1
    print("docs: build/docs/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
