"""Processor time of commands that only read, compared with an empty Python.

python benchmarks/start_up.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

_REPEATS = 10
_MBE = ["-m", "mbe_stage.pipeline.cli.entry"]
# Without bytecode every process would compile every module.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> None:
    """Print the least user time of each, alternating, and as a multiple of empty starts."""
    with tempfile.TemporaryDirectory() as directory:
        edges, out = Path(directory, "edges.csv"), str(Path(directory, "out"))
        edges.write_text("left,right\na,b\na,c\nd,b\nd,c\nd,e\n")
        _user_seconds([*_MBE, "enumerate", str(edges), "--out", out, "--engine", "reference", "--quiet"])
        commands = {
            "python -c pass": ["-c", "pass"],
            "import typer._adapters": ["-c", "import typer._adapters"],
            "import pyarrow.parquet": ["-c", "import pyarrow.parquet"],
            "mbe --version": [*_MBE, "--version"],
            "mbe --help": [*_MBE, "--help"],
            "mbe enumerate --help": [*_MBE, "enumerate", "--help"],
            "mbe runs": [*_MBE, "runs", out],
            "mbe top": [*_MBE, "top", out],
            "mbe export": [*_MBE, "export", out, "--csv", "--quiet"],
        }
        best = dict.fromkeys(commands, float("inf"))
        for _ in range(_REPEATS):
            for name, arguments in commands.items():
                best[name] = min(best[name], _user_seconds(arguments))
    empty = next(iter(best.values()))
    for name, seconds in best.items():
        print(f"{name:<24}{seconds:6.3f} s{seconds / empty:6.1f} x")


def _user_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, *arguments], check=True, env=_ENVIRONMENT, **streams)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


if __name__ == "__main__":
    main()
