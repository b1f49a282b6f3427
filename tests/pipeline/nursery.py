"""Runs in processes of their own that begin at once: each is forked from one that has imported and loaded everything.

``python nursery.py CONFIG.json`` loads what such a configuration needs compiled, and prints ``ready``. Then every line
it reads asks for runs, resumed where they can be, with checkpoints whatever they cost: ``config``, a configuration;
``after``, of each the seconds that it waits before; and ``disk``, where there is one, as `on_a_disk` takes it. It
prints ``begun PID`` of each, what they say (`crash_child`, slow blocks) and warn of (``warned ...``), and of each
``ended CODE``. Its other side is `nursery_support`.
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
from tests.pipeline.crash_child import run_and_tell, say

# What a run imports when it comes to it; no run is made here, whose threads a fork would lose.
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
    # SIGTERM and SIGHUP are heard as by the command, by runs from their beginning.
    leave_at_signals()
    # Among what runs say, where tests look for it.
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
    """The process of a run."""
    nursery = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(nursery)
        run_in_this_process(asked, after)
    say(f"begun {child}")
    return child


def run_in_this_process(asked: dict[str, Any], after: float) -> None:
    """Run, and end the process, whatever comes."""
    code = 70
    try:
        time.sleep(after)
        config, disk = Config.from_mapping(asked["config"]), asked.get("disk", {})
        with on_a_disk(**disk) if disk else nullcontext():
            code = run_and_tell(config, ["slow-blocks", "resume"])
            if "more_bytes" in disk:
                # Gone on with while it is full, and once it has so many.
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
    """A disk of so many bytes there, for a while; what is left on it at the end is copied before it goes."""
    completed(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "none", directory], check=True)
    try:
        yield
        shutil.copytree(directory, copy, symlinks=True)
    finally:
        completed(["umount", "--lazy", directory])


def remounted(directory: str, more_bytes: int, **_: object) -> None:
    """The same disk, larger."""
    completed(["mount", "-o", f"remount,size={more_bytes}", directory], check=True)


if __name__ == "__main__":
    main()
