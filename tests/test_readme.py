"""User documents are true: their commands and snippets run and print the output shown below them.

Blocks run in order in one directory, so later ones use earlier results: ``bash`` blocks in a shell, ``python`` blocks
in separate interpreters. A ``text`` block right after one is its output, with ``...`` for any text. ``console`` blocks
are not run (they install, serve or take minutes); their make targets must exist.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from mbe_stage import engine_names
from mbe_stage.pipeline.demo.groups import group_table, telling_groups
from mbe_stage.pipeline.demo.job import southern_women
from tests.commands import Commands
from tests.patience import completed

ROOT = Path(__file__).parent.parent
RUNNABLE = [
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/cliques.md",
    "docs/how-to/compare.md",
    "docs/how-to/counts.md",
    "docs/how-to/groups.md",
    "docs/how-to/python.md",
    "docs/how-to/shared-neighbours.md",
    "docs/reference/arrays.md",
]
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))

SOURCES = [
    path
    for folder in ("mbe_stage", "pipeline", "flows", "tests", "benchmarks", "examples", "tools")
    for path in (ROOT / folder).rglob("*.py")
]

# Files of the repository, except those that documents call absent.
_FILE = re.compile(r"`((?!utils\.py)[\w/]+\.py)`")
_NAMES_OF_FILE = re.compile(r"((?:`\w+`(?:, | and )?)+) of `([\w/]+\.py)`")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)?(?:#([^)]+))?\)|src=\"([^\"]+)\"")
_COMMANDS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


def test_extra_requirements_are_named_above_each_block() -> None:
    """`make run` installs the base dependencies only; pages about a library do not name it again."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = {re.split(r"[><=!]", line)[0].replace("pyyaml", "yaml") for line in project["dependencies"]}
    there |= {"mbe_stage", *sys.stdlib_module_names}
    asked = set()
    for document in ("README.md", "docs/tutorial.md", "docs/how-to/python.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for found in re.finditer(r"(?:[^\n]*\n){2}\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for package in re.findall(r"^(?:import|from) (\w+)", found[1], re.MULTILINE):
                if package not in there:
                    asked.add(package)
                    assert f"pip install {package}`" in found[0], found[0]
    assert asked == {"pandas", "duckdb"}


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    output: str | None
    line: int


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [Block(m[1], m[2], m[3], text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def run_block(block: Block, directory: Path, commands: Commands | None) -> subprocess.CompletedProcess[str]:
    """Run it in new processes, or in forked ones."""
    first = [] if commands is None else [str(commands.path)]
    path = os.pathsep.join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
    # So that a checkout without an installation works too.
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    if commands is not None and block.language == "python":
        return commands.python(block.code, directory, environment)
    return completed([*_COMMANDS[block.language], block.code], cwd=directory, env=environment)


@pytest.mark.parametrize("document", RUNNABLE)
def test_blocks_run_and_print_what_is_shown(document: str, tmp_path: Path, commands: Commands) -> None:
    runnable = [block for block in blocks(document) if block.language in _COMMANDS]
    assert runnable
    # The first block of each language runs as a user starts it; in slow tests, all do.
    by_themselves: set[str] = set()
    for block in runnable:
        is_first = document == RUNNABLE[0] and block.language not in by_themselves
        by_themselves.add(block.language)
        done = run_block(block, tmp_path, None if is_first else commands)
        assert done.returncode == 0, f"{document}, line {block.line}: exit code {done.returncode}\n{done.stderr}"
        if block.output is not None:
            matches = doctest.OutputChecker().check_output(block.output, done.stdout, doctest.ELLIPSIS)
            assert matches, f"{document}, line {block.line}: printed\n{done.stdout}"


def test_the_result_shown_is_the_demo_s(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    run = southern_women(tmp_path)
    shown = next(block.code for block in blocks("README.md") if block.code.startswith("Southern Women"))
    headline, heading, *table = shown.splitlines()
    facts, counts = run.manifest.input, run.manifest.counts
    assert headline.startswith(
        f"Southern Women: {facts.n_left} women × {facts.n_right} events, {facts.n_edges} edges, "
        f"{counts.bicliques} maximal bicliques in "
    )
    printed = io.StringIO()
    console = Console(file=printed, width=80, color_system=None)
    console.print(group_table(heading, "women", "events", telling_groups(run.run_dir, 5, 3)))
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [heading, *table]


def test_make_targets_shown_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"(?:\$ |`)make ([\w-]+)", (ROOT / document).read_text(encoding="utf-8"))
    }
    assert {"run", "test"} <= shown
    assert shown <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_resolve(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target, anchor, image in _LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        name = target or image
        if name.startswith(("http:", "https:")):
            continue
        path = (ROOT / document).parent / name if name else ROOT / document
        assert path.exists(), f"{document}: {name} does not exist"
        if anchor:
            assert anchor in anchors(path), f"{document}: {name}#{anchor} does not exist"


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_named_files_and_functions_exist(document: str) -> None:
    """Names may omit the start of the path: `cuda/kernels.py`."""
    text = (ROOT / document).read_text(encoding="utf-8")
    missing = [name for name in _FILE.findall(text) if not files_named(name)]
    for names, file in _NAMES_OF_FILE.findall(text):
        known = " ".join(path.read_text(encoding="utf-8") for path in files_named(file))
        missing += [f"{name} of {file}" for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", known)]
    assert not missing, f"{document}: {', '.join(missing)} do not exist"


def files_named(name: str) -> list[Path]:
    return [path for path in SOURCES if f"/{path.relative_to(ROOT).as_posix()}".endswith(f"/{name}")]


def test_the_tiers_are_those_of_this_version() -> None:
    tiers = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Tiers")[2].partition("\n## ")[0]
    for engine in engine_names("bicliques"):
        assert f"`{engine}`" in tiers, f"README.md: engine {engine} is missing under Tiers"
    assert ("no engine yet" in tiers) == ("cuda" not in engine_names("bicliques"))


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
