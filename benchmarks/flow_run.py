"""``make flow-gpu``: run a graph through the Prefect flow and print its log, states and artifacts.

``python -m benchmarks.flow_run [GRAPH] [--engine rapids]`` runs ``python -m mbe_stage.flows.enumerate --show`` on the
graph's edges as a Parquet file, with a temporary Prefect server and home: nothing has to run before, and no network is
needed. It prints the log, the tasks' states, the artifacts and the result of `mbe verify`. The exit code is that of the
flow's command: 0 only if the run was published and verified.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import machine
from benchmarks.edge_table import edges_as_parquet
from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import exit_code

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_LOGGERS = "pipeline,mbe_stage"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return the exit code of the flow's command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default="youtube", help="a name of the list, or a file")
    parser.add_argument("--engine", default="rapids", help="the tier: rapids, cuda, cpu, auto")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mbe-flow-") as name:
        directory = Path(name)
        try:
            edges = edges_as_parquet(options.graph, directory)
        except StageError as error:
            print(f"error: {error}", file=sys.stderr)
            return exit_code(error)
        about = machine.describe()
        print(f"{about['processor']}, {about['date']}, commit {options.commit or about['commit']}", flush=True)
        settings = [f"execution.engine={options.engine}", *options.overrides]
        command = [
            *[sys.executable, "-m", "mbe_stage.flows.enumerate", "--show"],
            *["--input", str(edges.absolute()), "--out", str(directory / "out")],
            *[part for setting in settings for part in ("--set", setting)],
        ]
        environment = _environment(directory / "prefect")
        # The log goes to the same stream, so that it precedes the results.
        done = subprocess.run(command, env=environment, cwd=_ROOT, stderr=subprocess.STDOUT, check=False)
        return done.returncode


def _environment(home: Path) -> dict[str, str]:
    """Return the environment without the user's Prefect: a new home, a temporary server without telemetry."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return kept | {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # The pipeline's own messages: tier, cuGraph or device code, sizes.
        "PREFECT_LOGGING_EXTRA_LOGGERS": _LOGGERS,
    }


if __name__ == "__main__":
    sys.exit(main())
