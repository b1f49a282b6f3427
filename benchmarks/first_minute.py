"""A new user's waiting time: ``python -m benchmarks.first_minute [--dir DIR]``; needs an idle machine.

It clones this checkout (its last commit) into an empty directory and, with empty caches, runs the README's first
commands: ``make run``, then the usual ones. It prints the time of each, split into installing, compiling and running,
the size of the environment, and the longest time without output, measured at a pipe, without spinners. Downloads do not
count if pip finds its packages in its own cache: run it twice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

__all__ = ["Line", "longest_silence", "main", "parts"]

_ROOT = Path(__file__).resolve().parents[1]
# Parts of `make run`, by their first line.
_PARTS = {
    "making .venv": "installing",
    "compiling the engine": "compiling",
    "enumerating two real graphs": "running",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A printed line and its time in seconds since the command started."""

    seconds: float
    text: str


def longest_silence(lines: Sequence[Line], end: float) -> tuple[float, str]:
    """Return the longest time without a line, from 0 to `end`, and the line before it."""
    times = [0.0, *(line.seconds for line in lines), end]
    before = ["(the beginning)", *(line.text for line in lines)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    longest = int(np.argmax(gaps))
    return gaps[longest], before[longest]


def parts(lines: Sequence[Line], end: float) -> dict[str, float]:
    """Return the seconds of each part of ``make run``."""
    starts: dict[str, float] = {}
    for line in lines:
        for words, part in _PARTS.items():
            if words in line.text:
                starts.setdefault(part, line.seconds)
    bounds = [*starts.values(), end]
    return {part: bounds[k + 1] - bounds[k] for k, part in enumerate(starts)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code of the failed command, or 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_minute", description=__doc__)
    parser.add_argument("--dir", type=Path, help="an empty directory to work in (default: a temporary one)")
    given = parser.parse_args(arguments).dir
    with tempfile.TemporaryDirectory(prefix="mbe-first-minute-") as made:
        return _measure(Path(given or made))


def _measure(directory: Path) -> int:
    clone, home = directory / "clone", directory / "home"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(_ROOT), str(clone)], check=True)
    environment = _environment(home)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    code, seconds, lines = _timed(["make", "run", f"PYTHON={_python()}"], clone, environment)
    if code:
        print("\n".join(line.text for line in lines), file=sys.stderr)
        return code
    print(f"{'make run, from a fresh clone to the report':<50}{seconds:8.1f} s")
    for part, share in parts(lines, seconds).items():
        print(f"  {part:<48}{share:8.1f} s")
    silence, before = longest_silence(lines, seconds)
    print(f"{'longest time without a line':<50}{silence:8.1f} s  after: {before[:60]}")
    print(f"{'.venv':<50}{_megabytes(clone / '.venv'):8.0f} MB")
    for what, command in _commands(directory):
        code, seconds, lines = _timed([str(clone / ".venv/bin/mbe"), *command], directory, environment)
        if code:
            print("\n".join(line.text for line in lines), file=sys.stderr)
            return code
        compiling = json.loads(lines[-1].text).get("seconds") if "--json" in command else None
        compiled = f"  of it compiling {compiling.get('compile', 0.0):.2f} s" if isinstance(compiling, Mapping) else ""
        print(f"{what:<50}{seconds:8.1f} s{compiled}", flush=True)
    return 0


def _commands(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Return the usual commands, on a random graph with text keys."""
    rng = np.random.default_rng(15)
    pairs = np.unique(rng.integers(0, (300, 120), (3000, 2)), axis=0)
    source = directory / "pairs.csv"
    source.write_text("left,right\n" + "".join(f"u{left},v{right}\n" for left, right in pairs))
    out = str(directory / "out")
    enumerate_ = ["enumerate", str(source), "--json", "--quiet"]
    yield "the first --count-only", [*enumerate_, "--count-only"]
    yield "minimum sizes", [*enumerate_, "--count-only", "--min-left", "2", "--min-right", "2"]
    yield "containing a vertex", [*enumerate_, "--count-only", "--containing-left", "u1"]
    yield "writing, with members, sorted", [*enumerate_, "--out", out, "--members", "--sort"]
    yield "mbe verify", ["verify", out]
    yield "mbe top", ["top", out]
    yield "mbe inspect", ["inspect", str(source), "--trial", "0.5"]


def _timed(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> tuple[int, float, list[Line]]:
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = [Line(time.monotonic() - start, line.rstrip()) for line in process.stdout]
    return process.wait(), time.monotonic() - start, lines


def _environment(home: Path) -> dict[str, str]:
    """Return a new user's environment, except pip's own settings and cache."""
    home.mkdir()
    dropped = ("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    found = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False)
    cache = {"PIP_CACHE_DIR": found.stdout.strip()} if found.returncode == 0 else {}
    return {**cache, **kept, "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def _python() -> str:
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))


def _megabytes(directory: Path) -> float:
    files = (path.lstat() for path in directory.rglob("*") if not path.is_dir())
    return sum(file.st_blocks * 512 for file in files) / 1e6


if __name__ == "__main__":
    sys.exit(main())
