"""Runs in processes of their own that begin at once: each is forked from one that has imported and loaded everything.

``python nursery.py CONFIG.json`` loads what such a configuration needs compiled, and prints ``ready``. Then every line
it reads is a configuration to run, resumed where it can be, with checkpoints whatever they cost. It prints ``begun
PID``, what the run says (`crash_child`, slow blocks), and ``ended CODE``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module

from mbe_stage import course
from mbe_stage.compile_ahead import compile_ahead
from pipeline import Config
from pipeline.compiling import host_steps
from pipeline.leaving import leave_at_signals
from tests.patience import end_with
from tests.pipeline.crash_child import run_and_tell, say

# What a run imports when it comes to it; no run is made here, whose threads a fork would lose.
IMPORTED_LATE = (
    "pandas",
    "pipeline.diff.job",
    "pipeline.io.delimited",
    "pipeline.outputs.bicliques.arrow.sink",
    "pipeline.outputs.bicliques.collector",
    "pyarrow.dataset",
    "scipy.io",
    "scipy.sparse",
)


def main() -> None:
    for name in IMPORTED_LATE:
        import_module(name)
    course._TIMES_ITS_COST = 0.0
    config = Config.from_mapping(json.loads(sys.argv[1]))
    compile_ahead(host_steps(config.execution.engine, config=config, samples=False))
    say("ready")
    for line in sys.stdin:
        nursery = os.getpid()
        child = os.fork()
        if child == 0:
            end_with(nursery)
            run_in_this_process(Config.from_mapping(json.loads(line)))
        say(f"begun {child}")
        _, status = os.waitpid(child, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


def run_in_this_process(config: Config) -> None:
    """Run, and end the process, whatever comes."""
    code = 70
    # SIGTERM and SIGHUP are heard as by the command.
    leave_at_signals()
    try:
        code = run_and_tell(config, ["slow-blocks", "resume"])
    except Exception:  # noqa: BLE001 - the process ends here, and says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
