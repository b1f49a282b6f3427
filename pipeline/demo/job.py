"""Two published runs and their largest groups.

Southern Women (Davis, Gardner and Gardner 1941): which of 18 women attended which of 14 social events. Python imports:
the modules of this environment and the names they import.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from mbe_stage.pipeline.cli.terminal import say
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.demo.groups import group_table, telling_groups
from mbe_stage.pipeline.demo.python_imports import environment_roots, import_graph
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.job import RunResult, run
from mbe_stage.repeating import repeated

console = Console()
_progress = Console(stderr=True)


def show_demo(out: Path) -> None:
    """Run both graphs below a directory, and print their largest groups."""
    data = out / "data"
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise PublishError(f"{data}: cannot be made ({refusal.strerror}); choose another directory: --out") from None
    women, imports = southern_women(out), python_imports(out)
    _show(women, "Southern Women", "women", "events", limit=5, fewest=3)
    _show(imports, "Python imports", "modules", "imported names", limit=8, fewest=8)


def southern_women(out: Path) -> RunResult:
    """Enumerate a CSV file."""
    path = out / "data" / "southern_women.csv"
    path.write_bytes(Path(__file__).with_name(path.name).read_bytes())
    return _run(path, out / "southern_women", "woman", "event")


def python_imports(out: Path) -> RunResult:
    """Enumerate a Parquet file made from this environment."""
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
        return run(config, on_compile=lambda standing: _progress.print(f"{standing}, {standing.seconds:.0f} s"))


@contextmanager
def _in_view(what: str) -> Iterator[None]:
    """Show the current step: with a spinner on a terminal, else with a line every two seconds."""
    if _progress.is_terminal:
        with _progress.status(what):
            yield
        return
    start = time.perf_counter()
    with repeated(lambda: _progress.print(f"{what}, {time.perf_counter() - start:.0f} s"), every=2.0):
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
