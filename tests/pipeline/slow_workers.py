"""Workers of a cluster whose search takes as long as its blocks are many, on any machine. They import this file."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from dask.distributed import WorkerPlugin

from mbe_stage.bicliques import engine_cpu

__all__ = ["SlowBlocks", "takes_too_much"]


class SlowBlocks(WorkerPlugin):
    """So many seconds for each block, in workers that come later too."""

    name = "slow-blocks"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def setup(self, worker: Any) -> None:  # noqa: ARG002 - the plugin's signature
        engine_cpu.run = functools.partial(slowly, engine_cpu.run, self._seconds)


def slowly(run: Callable[..., Any], seconds: float, *given: Any, **beside: Any) -> Iterator[Any]:
    with closing(run(*given, **beside)) as blocks:
        for block in blocks:
            time.sleep(seconds)
            yield block


def takes_too_much() -> None:
    """More memory than a worker may have: its nanny ends it."""
    held = []
    while True:
        held.append(bytearray(64 << 20))
        time.sleep(0.02)
