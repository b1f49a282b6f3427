"""Growth of the time: with the number of bicliques over all graphs, and with the number of edges of one.

``python -m benchmarks.scaling`` measures (one thread, counting) and draws; ``--draw`` draws an earlier measurement.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.count_and_write import CountTimes, bench_count
from benchmarks.graphs import GRAPHS, data_directory, find_graph
from benchmarks.measuring import Settings, compiled_afresh
from benchmarks.scaling_chart import Point, scaling_svg
from benchmarks.table import markdown_table
from mbe_stage.errors import StageError
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError, exit_code
from mbe_stage.pipeline.execution.ingest import ingest

__all__ = ["main", "sample_edges"]

_IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
_SHARES = (10, 25, 50, 100)
_SAMPLED = "bookcrossing"
_SEED = 2026


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and draw; return 1 if a count was wrong."""
    options = _parser().parse_args(arguments)
    try:
        if options.draw:
            figures = json.loads(options.json.read_text(encoding="utf-8"))
        else:
            figures = _measured(options)
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    options.image.parent.mkdir(parents=True, exist_ok=True)
    options.image.write_text(_drawn(figures), encoding="utf-8")
    print(_tables(figures))
    print(f"\n{options.json}\n{options.image}")
    for text in (*figures["wrong"], *figures["idleness"]["doubts"]):
        print(f"doubt: {text}", file=sys.stderr)
    return 1 if figures["wrong"] else 0


def sample_edges(path: Path, share: int, directory: Path) -> Path:
    """Write `share` percent of a graph's edges, drawn uniformly; larger shares contain smaller ones.

    Returns
    -------
    Path
        ``<directory>/<name>-<share>.npz``.
    """
    edges = ingest(InputConfig(path=str(path)))
    order = np.random.default_rng(_SEED).permutation(edges.facts.n_edges)
    chosen = order[: max(1, edges.facts.n_edges * share // 100)]
    sample = directory / f"{path.stem}-{share}.npz"
    np.savez(sample, u=edges.left_ids[chosen], v=edges.right_ids[chosen])
    return sample


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Measure and draw the scaling.")
    add = parser.add_argument
    add("--graphs", nargs="+", metavar="NAME", help="by default every graph that is there and finishes")
    add("--sampled", default=_SAMPLED, metavar="NAME", help=f"graph whose edges are sampled ({_SAMPLED})")
    add("--repeats", type=int, default=5, metavar="N", help="counts, of which the median is taken (5)")
    add("--spend", type=float, default=120.0, metavar="SECONDS", help="after which no repeat is begun (120)")
    add("--engine", default="auto", help="auto, cpu, cuda or reference (auto)")
    add("--json", type=Path, default=_IMAGES / "scaling.json", metavar="FILE", help="the figures")
    add("--image", type=Path, default=_IMAGES / "scaling.svg", metavar="FILE", help="the picture")
    add("--draw", action="store_true", help="measure nothing, draw the figures of --json")
    return parser


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    settings = Settings((1,), options.repeats, 0, options.spend, options.engine)
    found = [(name, *find_graph(name)) for name in options.graphs or _all_that_finish()]
    sampled, _ = find_graph(options.sampled)
    meter, before = machine.IdlenessMeter(), machine.calibrate()
    graphs, samples, wrong = [], [], []
    with compiled_afresh(settings) as environment, tempfile.TemporaryDirectory(prefix="mbe-scaling-") as directory:
        for name, path, known in found:
            times = _counted(path, settings, environment)
            graphs.append(_figure(known.name if known else path.stem, times))
            if known and known.expected not in (None, times.n_bicliques):
                wrong.append(f"{name}: counted {times.n_bicliques:,}; expected {known.expected:,}")
        for share in _SHARES:
            times = _counted(sample_edges(sampled, share, Path(directory)), settings, environment)
            samples.append({**_figure(options.sampled, times), "percent": share})
    after = machine.calibrate()
    idleness = meter.read()
    return {
        "machine": machine.describe(),
        "calibration": {"before": asdict(before), "after": asdict(after)},
        "idleness": {**asdict(idleness), "doubts": machine.why_not_idle(idleness, before, after)},
        "graphs": graphs,
        "samples": samples,
        "wrong": wrong,
    }


def _all_that_finish() -> list[str]:
    directory = data_directory()
    there = [graph.name for graph in GRAPHS if graph.expected and (directory / f"{graph.name}.npz").is_file()]
    if not there:
        raise InputError.at(
            directory,
            found="none of the benchmark graphs",
            expected="some of those in benchmarks/graphs.py",
            remedy="set MBE_DATA to the directory that holds them, or name files: --graphs FILE",
        )
    return there


def _counted(path: Path, settings: Settings, environment: dict[str, str]) -> CountTimes:
    print(f"counting {path.stem}", file=sys.stderr, flush=True)
    return bench_count(path, 1, settings.repeats, settings.engine, settings.spend_seconds, environment)


def _figure(name: str, times: CountTimes) -> dict[str, Any]:
    return {
        "graph": name,
        "edges": times.n_edges,
        "bicliques": times.n_bicliques,
        "seconds": statistics.median(times.seconds),
        "repeats": len(times.seconds),
    }


def _tables(figures: dict[str, Any]) -> str:
    columns = ["graph", "edges", "bicliques", "seconds", "bicliques a second", "median of"]

    def lines(entries: Sequence[dict[str, Any]]) -> list[list[str]]:
        return [
            [
                f"{entry['graph']} {entry['percent']} %" if "percent" in entry else entry["graph"],
                f"{entry['edges']:,}",
                f"{entry['bicliques']:,}",
                f"{entry['seconds']:.3g}",
                f"{entry['bicliques'] / entry['seconds']:,.0f}",
                f"{entry['repeats']}",
            ]
            for entry in entries
        ]

    return markdown_table(columns, [*lines(figures["graphs"]), *lines(figures["samples"])], right_from=1)


def _drawn(figures: dict[str, Any]) -> str:
    graphs = [Point(entry["bicliques"], entry["seconds"], entry["graph"]) for entry in figures["graphs"]]
    samples = [
        Point(entry["edges"], entry["seconds"], f"{entry['percent']} %: {entry['bicliques']:,} bicliques")
        for entry in figures["samples"]
    ]
    about = figures["machine"]
    note = (
        f"One thread, counting, from the graph in memory. {about['processor']}, {about['date'][:10]}, commit "
        f"{about['commit'] or 'unknown'}; calibration loop {figures['calibration']['before']['one_thread']:.3f} s."
    )
    return scaling_svg(graphs, samples, figures["samples"][0]["graph"] if samples else "", note)


if __name__ == "__main__":
    sys.exit(main())
