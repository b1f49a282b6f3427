"""Dask's scheduler and workers without their HTTP servers, which answer everybody on the machine.

A module of its own: worker processes import its classes by name.
"""

from __future__ import annotations

import importlib
from typing import Any

_distributed: Any = importlib.import_module("distributed")


class _Closed:
    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open nothing; Dask has no setting for that."""


class ClosedScheduler(_Closed, _distributed.Scheduler):  # type: ignore[misc]  # Dask's, without types here
    """A scheduler that opens no HTTP port."""


class ClosedWorker(_Closed, _distributed.Worker):  # type: ignore[misc]
    """A worker that opens no HTTP port."""


class ClosedNanny(_distributed.Nanny):  # type: ignore[misc]
    """A nanny of a `ClosedWorker`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, worker_class=ClosedWorker, **options)


def without_http(kind: Any) -> Any:
    """Return that class of clusters of this machine with a `ClosedScheduler`."""

    class Closed(kind):  # type: ignore[misc]
        async def _start(self) -> None:
            self.scheduler_spec["cls"] = ClosedScheduler
            await super()._start()

    return Closed
