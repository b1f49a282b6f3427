"""The base of collectors that pass blocks to a sink of the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.runners.parts import Part
from mbe_stage.tasks import OpenWork, Task


class SinkCollector:
    """A `Collector` up to `finish`: hands blocks to the sink that the problem has for the backend.

    Parameters
    ----------
    package : str
        The problem's package: ``mbe_stage.pipeline.problems.bicliques``. It has a module for each backend, with
        `sink_of` and the functions that make tables.
    """

    def __init__(self, collecting: Collecting, package: str) -> None:
        self._collecting, self._package = collecting, package
        self._backend = collecting.backend
        self.on_device: bool = self._backend.is_on_device
        self._context = ExitStack()
        self._sink: Any = None

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of the sink: ``plan`` and ``name`` if it is on a device, ``write``."""
        return {} if self._sink is None else self._sink.seconds

    @property
    def shares(self) -> Any:
        """The sink's shares of memory, for the backend's `budget`."""
        return self._sink.shares

    def accept(self, block: Any) -> int | None:
        """Take one block; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        return self._sink.accept(block)

    @property
    def parts(self) -> Any:
        """The parts of `mbe_stage.stream.Sink`; None if workers send their results."""
        return getattr(self._sink, "parts", None)

    def take_part(self, part: Part) -> None:
        """Add a part that a worker has written.

        Raises
        ------
        PublishError
            A file of the part is missing or incomplete.
        """
        self._sink.take_part(part)

    @property
    def checkpoint(self) -> Callable[[Sequence[Task | OpenWork], float], None] | None:
        """The checkpoint method of `mbe_stage.stream.Sink`; None without a journal or if results cannot be restored."""
        return self._book if self._collecting.journal is not None and self._is_kept() else None

    def _is_kept(self) -> bool:
        """Return True if all results can be restored from a journal."""
        return True

    def _book(self, remaining: Sequence[Task | OpenWork], work_done: float) -> None:
        self._sink.checkpoint(remaining, work_done)

    def __enter__(self) -> Self:
        with ExitStack() as context:
            self._begin(context)
            self._sink = context.enter_context(self._frames.sink_of(self._collecting))
            self._context = context.pop_all()
        return self

    def _begin(self, context: ExitStack) -> None:
        """Start the work that begins before the sink and ends after it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)

    @property
    def _frames(self) -> Any:
        """The problem's module for the backend; the names in it are the same for all backends."""
        return import_module(f"{self._package}.{self._backend.name}")
