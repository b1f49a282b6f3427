"""Set up an environment and say what goes on: ``python tools/install.py ENVIRONMENT [REQUIREMENT | --group NAME]...``.

pip is silent while it unpacks, for half a minute where much is to be unpacked. So its lines are followed, and at least
every two seconds there is one here. Only the standard library is used: nothing is installed yet.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

_SECONDS_BETWEEN_LINES = 2.0
_LOADED = (
    "mbe_stage.pipeline.cli.json_or_text",
    "mbe_stage.pipeline.report",
    "mbe_stage.pipeline.verify",
    "mbe_stage.bicliques.engine_cpu",
    "scipy.sparse",
)


def main(environment: str, *requirements: str) -> int:
    """Make the environment where there is none, and install the requirements into it; returns the exit code."""
    listed = with_groups(requirements)
    python = Path(environment, "bin", "python")
    # pip comes last: what was interrupted before is made again.
    if not Path(environment, "bin", "pip").exists():
        code = _run([sys.executable, "-m", "venv", environment], f"making {environment}")
        if code:
            return code
    # What is imported is compiled to bytecode then; most of it never is.
    pip = [str(python), "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--progress-bar", "off"]
    what = f"installing {' '.join(each for each in requirements if not each.startswith('--'))} into {environment}"
    uv, code = Path(environment, "bin", "uv"), 1
    if uv.exists():  # It takes a sixth of pip's time, but knows no pip.conf. Continuous integration puts it there.
        code = _run([str(uv), "pip", "install", "--python", str(python), *listed], what)
    if code:
        code = _run([*pip, *listed], what)
    # The first import writes bytecode, which takes several times as long as later ones: here, where it is said.
    return code or _run([str(python), "-c", f"import {', '.join(_LOADED)}"], "loading it for the first time")


def with_groups(requirements: Sequence[str]) -> list[str]:
    """Return the requirements of each ``--group NAME`` in pyproject.toml; pip itself knows groups from 25.1 on."""
    listed, waiting = list[str](), iter(requirements)
    for each in waiting:
        if each != "--group":
            listed.append(each)
            continue
        name = next(waiting, "")
        project = Path(__file__).resolve().parents[1] / "pyproject.toml"
        groups = tomllib.loads(project.read_text(encoding="utf-8"))["dependency-groups"]
        if name not in groups:
            sys.exit(f"no dependency group {name!r} in pyproject.toml; expected one of {', '.join(groups)}")
        listed += groups[name]
    return listed


def _run(command: list[str], what: str) -> int:
    """Run a command, a line now and then; all its lines where it fails."""
    start = last = time.monotonic()
    print(f"{what} ...", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    said, latest, since, n_packages = list[str](), "at it", start, 0
    try:
        while True:
            try:
                line = lines.get(timeout=0.2)
                if line is None:
                    break
                said.append(line)
                n_packages += line.startswith("Collecting")
                if _shortened(line):
                    latest, since = _shortened(line), time.monotonic()
            except queue.Empty:
                pass
            if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                found = f", packages so far: {n_packages}" if n_packages and "packages" not in latest else ""
                stands = f", for {last - since:.0f} s" if last - since >= _SECONDS_BETWEEN_LINES else ""
                print(f"  {last - start:3.0f} s  {latest}{stands}{found}", flush=True)
    finally:
        # Ctrl-C reaches it as well: whatever it was about is over before anything else is begun.
        code = process.wait()
    if code:
        print("\n".join(said), file=sys.stderr, flush=True)
    else:
        print(f"  {time.monotonic() - start:3.0f} s  done", flush=True)
    return code


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.rstrip())
    lines.put(None)


def _shortened(line: str) -> str:
    """Return a short form of a line of pip, or empty text."""
    words = line.split()
    if line.startswith("Installing collected packages"):
        return f"installing {len(words) - 3} packages"
    if words[:1] == ["Collecting"]:
        return f"looking up {words[1]}"
    if words[:1] == ["Downloading"] and "metadata" not in words[1]:
        # Of a file only the name and the version. It is done once pip says something else.
        return f"downloading {'-'.join(words[1].split('-')[:2])}"
    if line.startswith("INFO: pip is looking at multiple versions"):
        return "comparing versions"
    return f"{line[:1].lower()}{line[1:]}" if words[:1] in (["Building"], ["Preparing"]) else ""


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        sys.exit(130)
