"""The derived outputs of a run: their collectors receive the problem's results, and failures of one stay apart."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.lack_of_memory import is_of_device_memory
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.installed import derived_of
from mbe_stage.pipeline.publish.run_files import as_publish_errors

log = logging.getLogger(__name__)

T = TypeVar("T")


class GuardedCollector:
    """Wrap a derived output's collector: one block at a time, and failures as one-line errors.

    Parameters
    ----------
    name : str
        Name of the derived output.
    make : callable
        Returns its collector.
    """

    def __init__(self, name: str, collecting: Collecting, make: Callable[[Collecting], DerivedCollector]) -> None:
        self.name = name
        self._run_path = collecting.run_path
        self._lock = threading.Lock()
        # The optional attributes of a `DerivedCollector` are not known in advance.
        self._collector: Any = self._guarded(make, collecting)

    def __enter__(self) -> GuardedCollector:
        self._guarded(self._collector.__enter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._guarded(self._collector.__exit__, kind, error, trace)
        except Exception as failure:
            if error is None:
                raise
            # Report the error that ended the run, not this consequence.
            log.warning("%s", failure)

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time of the output's own steps within `finish`; usually empty."""
        return dict(getattr(self._collector, "seconds", {}))

    @property
    def elsewhere_seconds(self) -> float:
        """Part of the time limit for the output's steps around the search; set once the context is entered."""
        return float(getattr(self._collector, "elsewhere_seconds", 0.0))

    def accept(self, block: Any, keys: Any) -> None:
        """Accept one block, from any thread.

        Raises
        ------
        PublishError
            The collector failed.
        """
        with self._lock:
            self._guarded(self._collector.accept, block, keys)

    @property
    def gives_sums(self) -> bool:
        """True if another process can restore its sums."""
        return hasattr(self._collector, "sums") and hasattr(self._collector, "restore")

    def sums(self) -> dict[str, Any]:
        """Return the sums so far as host arrays.

        Raises
        ------
        PublishError
            The collector failed.
        """
        with self._lock:
            return dict(self._guarded(self._collector.sums))

    def restore(self, sums: Mapping[str, Any]) -> None:
        """Add the result of `sums`.

        Raises
        ------
        PublishError
            The collector failed.
        """
        with self._lock:
            self._guarded(self._collector.restore, sums)

    def for_workers(self) -> Callable[[], Any] | None:
        """Return a factory for a receiver of blocks in workers, or None if it cannot work there.

        Raises
        ------
        PublishError
            The collector failed.
        """
        if not self.gives_sums or not hasattr(self._collector, "for_workers"):
            return None
        make: Callable[[], Any] = self._guarded(self._collector.for_workers)
        return make

    def finish(self) -> dict[str, int]:
        """Write the tables; return counts.

        Raises
        ------
        PublishError
            The collector failed, or returned counts that are not whole numbers.
        """
        counts = self._guarded(self._collector.finish)
        if not isinstance(counts, Mapping) or not all(type(n) is int for n in counts.values()):
            raise PublishError(
                f"derived output {self.name!r}: gives {counts!r}; expected counts by name, whole numbers"
            )
        return dict(counts)

    def _guarded(self, action: Callable[..., T], *arguments: Any) -> T:
        try:
            with as_publish_errors(self._run_path):
                return action(*arguments)
        except (StageError, MemoryError):
            raise
        except Exception as error:
            if is_of_device_memory(error):
                # The owner of the memory pool reports this error, and another tier may take over.
                raise
            what = " ".join(str(error).split())
            raise PublishError(
                f"derived output {self.name!r}: {type(error).__name__}: {what}; expected it to take every result in; "
                f"leave its section out of the configuration, or mend its package"
            ) from error


def derived_collectors(collecting: Collecting) -> tuple[GuardedCollector, ...]:
    """Return a collector for each derived output of the configuration.

    Raises
    ------
    ConfigError, PublishError
        Two would write the same table, or one cannot be made.
    """
    return tuple(GuardedCollector(each.name, collecting, each.collector) for each in derived_of(collecting.config))
