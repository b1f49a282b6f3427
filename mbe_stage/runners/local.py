"""Run all tasks in this process, with one engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mbe_stage.options import Execution
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork, Task


def run(
    engine: Any,
    graph: Any,
    query: Any,
    execution: Execution,
    detail: Any,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    on_device: bool = False,
    barrier: Barrier | None = None,
) -> Iterator[Any]:
    """Yield the blocks of all tasks, or of the given ones.

    Parameters
    ----------
    tasks : iterable of Task, optional
        Tasks from the engine's `tasks_of` for the same graph and query.
    on_device : bool
        True to keep blocks in device memory.
    barrier : Barrier, optional
        Requests barriers, if the engine takes one.
    """
    asked = {} if barrier is None else {"barrier": barrier}
    if on_device:
        return engine.device_blocks(graph, query, execution, tasks, **asked)
    return engine.run(graph, query, execution, detail, tasks, **asked)
