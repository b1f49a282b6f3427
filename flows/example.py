"""An example to start your own flow from: fetch edges, publish their bicliques, show the largest.

Run it with ``python -m mbe_stage.flows.example URL OUT``. `flows.enumerate` adds locks, progress, checkpoints and the
skip of an unchanged input.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from urllib.request import urlopen

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.views.top import largest_bicliques

__all__ = ["bicliques_of_url"]


@task(retries=3, retry_delay_seconds=10)
def fetch(url: str, path: Path) -> Path:
    """Copy the edge list at a URL to a local file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(url, timeout=60) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
    return path


@task
def enumerate_and_publish(edges: Path, output: Path) -> Path:
    """Publish the maximal bicliques of an edge list; return the run's directory."""
    config = Config.from_mapping({"input": {"path": str(edges)}, "output": {"directory": str(output)}})
    return run(config).run_dir


@task
def show_largest(run_dir: Path) -> None:
    """Show the ten bicliques with the most edges as a table in Prefect's interface."""
    largest = largest_bicliques(run_dir, 10)
    rows = [{"left": list(each.left), "right": list(each.right), "edges": each.n_edges} for each in largest]
    create_table_artifact(rows, key="largest-bicliques", description=str(run_dir))


@flow(name="bicliques-of-url")
def bicliques_of_url(url: str, output: Path) -> Path:
    """Fetch, enumerate, show; return the run's directory."""
    edges = fetch(url, output / "input" / Path(url).name)
    run_dir = enumerate_and_publish(edges, output)
    show_largest(run_dir)
    return run_dir


if __name__ == "__main__":
    bicliques_of_url(sys.argv[1], Path(sys.argv[2]))
