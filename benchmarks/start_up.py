"""How long `mbe` takes to answer without working, beside an empty Python.

python benchmarks/start_up.py
"""

from __future__ import annotations

import subprocess
import sys
import time

_REPEATS = 10
_MBE = ["-m", "mbe_stage.pipeline.cli.entry"]
_COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "mbe --version": [*_MBE, "--version"],
    "mbe --help": [*_MBE, "--help"],
    "mbe enumerate --help": [*_MBE, "enumerate", "--help"],
}


def main() -> None:
    """Print the best of ten of each, and how many empty starts that is."""
    seconds = {name: min(_seconds(arguments) for _ in range(_REPEATS)) for name, arguments in _COMMANDS.items()}
    empty = next(iter(seconds.values()))
    for name, best in seconds.items():
        print(f"{name:<22}{best:6.3f} s{best / empty:6.1f} x")


def _seconds(arguments: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
