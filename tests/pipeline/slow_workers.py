"""Cluster workers whose search time depends on the number of blocks, not on the machine. Workers import this file."""

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
    """Delays every block by some seconds, also in workers that start later."""

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
    """Allocate more memory than a worker may have, so its nanny kills it."""
    held = []
    while True:
        held.append(bytearray(64 << 20))
        time.sleep(0.02)
