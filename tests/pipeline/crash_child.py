"""A run in its own process that crash tests kill, interrupt or starve; it reports its progress on stdout.

``python crash_child.py CONFIG.json EDGES.csv [OPTION]...`` prints ``ready``, waits for a line, and prints ``running``
after the first block, ``publishing``, and then ``done RUN_DIR``, ``refused CODE MESSAGE`` or, after a signal,
``interrupted N_FOUND``. Options are ``slow-sync``, ``slow-blocks``, ``file-limit=BYTES``, ``resume``, and
``killed-before-lock`` and ``killed-before-removal``, which make it kill itself.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

from mbe_stage.errors import StageError
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import INTERRUPTED, exit_code
from mbe_stage.pipeline.publish import staging as publish_module


def say(text: str) -> None:
    # One write, since other processes write to the same pipe.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    config = Config.from_mapping(json.loads(sys.argv[1]))
    options = sys.argv[3:]
    prepare(options)
    say("ready")
    sys.stdin.readline()
    return run_and_tell(config, options)


def run_and_tell(config: Config, options: list[str]) -> int:
    """Execute the run, print its events, and return the exit code."""
    told: list[int] = []

    def on_progress(progress: Any) -> None:
        if not told:
            say("running")
        told[:] = [progress.n_found]
        if "slow-blocks" in options:
            time.sleep(0.01)

    try:
        result = run(config, on_progress=on_progress, resume="resume" in options)
    except StageError as error:
        say(f"refused {exit_code(error)} {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        say(f"interrupted {sum(told)}")
        return INTERRUPTED
    say(f"done {result.run_dir}")
    return 0


def prepare(options: list[str]) -> None:
    real_publish, real_fsync = publish_module.Staging.publish, os.fsync

    def publish(*args, **kwargs):
        say("publishing")
        return real_publish(*args, **kwargs)

    def slow_fsync(descriptor):
        time.sleep(0.03)
        return real_fsync(descriptor)

    publish_module.Staging.publish = publish
    if "slow-sync" in options:
        os.fsync = slow_fsync
    if "killed-before-lock" in options:
        make = publish_module._make_directory
        publish_module._make_directory = lambda path: (make(path), os.kill(os.getpid(), signal.SIGKILL))
    if "killed-before-removal" in options:
        remove = publish_module.remove_tree

        def remove_or_die(path, above):
            if path.name.endswith("-expired"):
                os.kill(os.getpid(), signal.SIGKILL)
            remove(path, above)

        publish_module.remove_tree = remove_or_die
    for option in options:
        if option.startswith("file-limit="):
            limit = int(option.partition("=")[2])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


if __name__ == "__main__":
    sys.exit(main())
