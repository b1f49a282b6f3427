"""The whole demo: two runs, and what is worth seeing of them.

Southern Women (Davis 1941): 18 women, 14 social events, who attended what. Python imports: the modules of this very
environment and the names they import. Both become published runs with tables and a report.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from examples.demo.groups import group_table, telling_groups
from examples.demo.python_imports import environment_roots, import_graph
from mbe_stage.errors import StageError
from mbe_stage.pipeline import Config, RunResult, run
from mbe_stage.pipeline.cli.terminal import say
from mbe_stage.pipeline.errors import exit_code, interruption
from mbe_stage.pipeline.execution.signals import signal_of
from mbe_stage.repeating import repeated

console = Console()


def southern_women(out: Path) -> RunResult:
    """All maximal bicliques of who attended what, from a CSV file."""
    path = out / "data" / "southern_women.csv"
    shutil.copyfile(Path(__file__).with_name("southern_women.csv"), path)
    return _run(path, out / "southern_women", "woman", "event")


def python_imports(out: Path) -> RunResult:
    """All maximal bicliques of modules and the names they import, from a Parquet file made on the spot."""
    start = time.perf_counter()
    with _in_view("reading the imports of every module of this Python environment"):
        graph = import_graph(environment_roots())
    unparsed = f" ({graph.n_unparsed:,} could not be parsed)" if graph.n_unparsed else ""
    seconds = time.perf_counter() - start
    console.print(f"{graph.n_modules:,} modules{unparsed}, {len(graph.edges):,} imports, parsed in {seconds:.1f} s")
    path = out / "data" / "python_imports.parquet"
    modules, names = zip(*graph.edges, strict=True)
    pq.write_table(pa.table({"module": modules, "name": names}), path)
    return _run(path, out / "python_imports", "module", "name")


def _run(path: Path, directory: Path, left: str, right: str) -> RunResult:
    config = Config.from_mapping(
        {"input": {"path": str(path), "left": left, "right": right}, "output": {"directory": str(directory)}}
    )
    with _in_view(f"enumerating {path.name}"):
        return run(config, on_compile=lambda standing: console.print(f"{standing}, {standing.seconds:.0f} s"))


@contextmanager
def _in_view(what: str) -> Iterator[None]:
    """Say what goes on: with a spinner on a terminal, else a line every two seconds."""
    if console.is_terminal:
        with console.status(what):
            yield
        return
    start = time.perf_counter()
    with repeated(lambda: console.print(f"{what}, {time.perf_counter() - start:.0f} s"), every=2.0):
        yield


def _show(result: RunResult, title: str, left: str, right: str, limit: int, fewest: int) -> None:
    facts, counts = result.manifest.input, result.manifest.counts
    console.print()
    console.print(
        f"[bold]{title}[/bold]: {facts.n_left:,} {left} × {facts.n_right:,} {right}, {facts.n_edges:,} edges, "
        f"[bold]{counts.bicliques:,} maximal bicliques[/bold] in {result.manifest.seconds['total']:.2f} s"
    )
    groups = telling_groups(result.run_dir, limit, fewest)
    heading = f"Largest groups with at least {fewest} on both sides, near copies left out"
    console.print(group_table(heading, left, right, groups))
    say(f"tables  {result.run_dir}/")
    say(f"report  {result.run_dir}/report.html")


def main(arguments: list[str] | None = None) -> int:
    """Run both graphs and show what came out; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where everything is written (default: out)")
    out = parser.parse_args(arguments).out
    (out / "data").mkdir(parents=True, exist_ok=True)
    try:
        women = southern_women(out)
        imports = python_imports(out)
    except StageError as error:
        say(f"demo: {error}", sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as interrupt:
        say(interruption(interrupt), sys.stderr)
        return 128 + signal_of(interrupt)
    _show(women, "Southern Women", "women", "events", limit=5, fewest=3)
    _show(imports, "Python imports", "modules", "imported names", limit=8, fewest=8)
    return 0
