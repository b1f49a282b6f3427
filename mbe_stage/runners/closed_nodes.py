"""Dask's scheduler and workers without their HTTP servers, which every user of the machine could reach.

This is a separate module because worker processes import its classes by name.
"""

from __future__ import annotations

import importlib
from typing import Any

_distributed: Any = importlib.import_module("distributed")


class _Closed:
    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open nothing; Dask has no setting to turn it off."""


class ClosedScheduler(_Closed, _distributed.Scheduler):  # type: ignore[misc]  # Dask's, without types here
    """A scheduler without an HTTP port."""


class ClosedWorker(_Closed, _distributed.Worker):  # type: ignore[misc]
    """A worker without an HTTP port."""


class ClosedNanny(_distributed.Nanny):  # type: ignore[misc]
    """A nanny of a `ClosedWorker`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, worker_class=ClosedWorker, **options)


def without_http(kind: Any) -> Any:
    """Return a subclass of this class of local clusters, with a `ClosedScheduler`."""

    class Closed(kind):  # type: ignore[misc]
        async def _start(self) -> None:
            self.scheduler_spec["cls"] = ClosedScheduler
            await super()._start()

    return Closed
