"""Runs in processes of their own that start at once: each is forked from a process that has loaded everything.

``python nursery.py CONFIG.json`` loads the compiled code for that configuration and prints ``ready``. Each line it then
reads starts runs, which save checkpoints at any cost: ``config``, a configuration; ``after``, the seconds that each run
waits first; optionally ``disk``, the arguments of `on_a_disk`, and ``options`` of `crash_child`, otherwise slow blocks,
and runs resume if possible. It prints ``begun PID`` of each run, the run's events (`crash_child`) and warnings
(``warned ...``), and ``ended CODE``. The tests' side is `nursery_support`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from mbe_stage import run_limits
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.cli.early_exit import leave_at_signals
from mbe_stage.pipeline.execution.compiling import host_steps
from mbe_stage.runtime.compile_ahead import compile_ahead
from tests.patience import completed, end_with
from tests.pipeline.crash_child import prepare, run_and_tell, say

# Modules that a run imports late. No run is made here, since a fork would lose its threads.
IMPORTED_LATE = (
    "pandas",
    "mbe_stage.pipeline.views.diff.job",
    "mbe_stage.pipeline.io.text.delimited",
    "mbe_stage.pipeline.problems.bicliques.arrow",
    "mbe_stage.pipeline.problems.bicliques.collector",
    "pyarrow.dataset",
    "scipy.io",
    "scipy.sparse",
)


def main() -> None:
    for name in IMPORTED_LATE:
        import_module(name)
    run_limits._TIMES_ITS_COST = run_limits._SHARE_OF_TIME = 0.0
    # Handle SIGTERM and SIGHUP as the command does, from the start of each run.
    leave_at_signals()
    # Print warnings among the events of runs, where tests look for them.
    logging.basicConfig(stream=sys.stdout, format="warned %(message)s")
    config = Config.from_mapping(json.loads(sys.argv[1]))
    compile_ahead(host_steps(config.execution.engine, config=config, samples=False))
    say("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        runs = [begun(asked, after) for after in asked["after"]]
        for run in runs:
            _, status = os.waitpid(run, 0)
            say(f"ended {os.waitstatus_to_exitcode(status)}")


def begun(asked: dict[str, Any], after: float) -> int:
    """Fork a run and return its process id."""
    nursery = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(nursery)
        run_in_this_process(asked, after)
    say(f"begun {child}")
    return child


def run_in_this_process(asked: dict[str, Any], after: float) -> None:
    """Run, and always end the process."""
    code = 70
    try:
        time.sleep(after)
        config, disk = Config.from_mapping(asked["config"]), asked.get("disk", {})
        options = asked.get("options", ["slow-blocks", "resume"])
        prepare(options)
        with on_a_disk(**disk) if disk else nullcontext():
            code = run_and_tell(config, options)
            if "more_bytes" in disk:
                # Resume while the disk is full, and again after it has grown.
                run_and_tell(config, ["resume"])
                remounted(**disk)
                code = run_and_tell(config, ["resume"])
    except BaseException:  # noqa: BLE001 - the process ends here, and says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def on_a_disk(directory: str, n_bytes: int, copy: str, **_: object) -> Iterator[None]:
    """Mount a disk of this size; at the end, copy its files and unmount it."""
    completed(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "none", directory], check=True)
    try:
        yield
        shutil.copytree(directory, copy, symlinks=True)
    finally:
        completed(["umount", "--lazy", directory])


def remounted(directory: str, more_bytes: int, **_: object) -> None:
    """Enlarge the disk."""
    completed(["mount", "-o", f"remount,size={more_bytes}", directory], check=True)


if __name__ == "__main__":
    main()
