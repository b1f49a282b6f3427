"""Schedulers with one worker each, in processes of their own, forked from one that has loaded everything.

``python scheduler_nursery.py`` prints ``ready``. Each line it reads starts a scheduler: ``room`` is the directory for
its ``scheduler.json``, and ``seconds`` the time its worker takes for a block. It prints ``begun PID``, the scheduler's
process id. The worker ends when it loses its scheduler. The tests' side is `nursery_support`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from dask.distributed import Scheduler, Worker

from tests.patience import end_with
from tests.pipeline import loaded_by_workers
from tests.pipeline.crash_child import say


async def schedule(file: str) -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, scheduler_file=file) as scheduler:
        await scheduler.finished()


async def work(file: str, room: str, seconds: float) -> None:
    plugins = (loaded_by_workers.slow_workers.SlowBlocks(seconds),)
    async with Worker(scheduler_file=file, nthreads=1, local_directory=room, plugins=plugins) as worker:
        await worker.finished()


def forked(serve: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> int:
    """Fork a process that serves; return its process id."""
    nursery, child = os.getpid(), os.fork()
    if child == 0:
        end_with(nursery)
        try:
            asyncio.run(serve(*given))
        except BaseException:  # noqa: BLE001 - the process ends here, and says why
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def forget_the_ended() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    say("ready")
    for line in sys.stdin:
        forget_the_ended()
        asked = json.loads(line)
        file = f"{asked['room']}/scheduler.json"
        scheduler = forked(schedule, file)
        forked(work, file, asked["room"], asked["seconds"])
        say(f"begun {scheduler}")


if __name__ == "__main__":
    main()
