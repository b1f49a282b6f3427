"""A flow run as text, for use without a browser: its state, tasks and artifacts."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import Artifact, State, TaskRun

from mbe_stage.pipeline.wording import percent_text

__all__ = ["artifact_text", "tasks_text", "transcript"]

_SETTLE_SECONDS = 0.5
_MOST_SETTLE_SECONDS = 30.0
_CELL_CHARACTERS = 60


def transcript(flow_run_id: UUID) -> str:
    """Return the name and state of an ended flow run, its tasks, and its artifacts.

    Parameters
    ----------
    flow_run_id : UUID
        The id in `state.state_details`, known to the server of this process.
    """
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(flow_run_id)
        artifacts, tasks = _settled(client, flow_run_id)
    parts = [f"flow run {run.name}: {_state_text(run.state)}", tasks_text(tasks), *map(artifact_text, artifacts)]
    return "\n\n".join(parts)


def tasks_text(tasks: list[TaskRun]) -> str:
    """Return one line per task: name, state, number of runs, total seconds."""
    rows = [
        {
            "task": task.name,
            "state": _state_text(task.state),
            "runs": str(task.run_count),
            "seconds": f"{task.total_run_time.total_seconds():.2f}",
        }
        for task in tasks
    ]
    return "\n".join(_aligned(rows))


def artifact_text(artifact: Artifact) -> str:
    """Return the artifact's key, type and content."""
    described = "" if artifact.description is None else f": {artifact.description}"
    return "\n".join([f"artifact {artifact.key} ({artifact.type}){described}", *_content(artifact)])


def _settled(client: SyncPrefectClient, flow_run_id: UUID) -> tuple[list[Artifact], list[TaskRun]]:
    """Read artifacts and tasks in order of their start. The server records task states with a delay."""
    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    artifacts = client.read_artifacts(flow_run_filter=chosen)
    makers = {artifact.task_run_id for artifact in artifacts} - {None}

    def read() -> list[TaskRun]:
        return client.read_task_runs(flow_run_filter=chosen)

    def ended(tasks: list[TaskRun]) -> bool:
        return makers <= {task.id for task in tasks} and all(task.state and task.state.is_final() for task in tasks)

    tasks = _steady(read, ended)
    return sorted(artifacts, key=lambda artifact: str(artifact.created)), sorted(
        tasks, key=lambda task: str(task.start_time)
    )


def _steady(read: Callable[[], list[TaskRun]], ended: Callable[[list[TaskRun]], bool]) -> list[TaskRun]:
    """Read until all tasks have ended and two reads agree, or the time is up."""
    deadline, before, now = time.monotonic() + _MOST_SETTLE_SECONDS, None, read()
    while not (ended(now) and now == before) and time.monotonic() < deadline:
        time.sleep(_SETTLE_SECONDS)
        before, now = now, read()
    return now


def _state_text(state: State | None) -> str:
    if state is None:
        return "unknown"
    return state.name or state.type.value if not state.message else f"{state.name}: {state.message}"


def _content(artifact: Artifact) -> Iterator[str]:
    if artifact.type == "progress":
        yield f"  {percent_text(float(str(artifact.data)) / 100, 1)}"
    elif artifact.type == "table":
        yield from textwrap.indent("\n".join(_aligned(json.loads(str(artifact.data)))), "  ").splitlines()
    else:
        yield from textwrap.indent(str(artifact.data), "  ").splitlines()


def _aligned(rows: Sequence[Mapping[str, str | int]]) -> Iterator[str]:
    """Align rows below their column names; cut long text."""
    if not rows:
        yield "none"
        return
    cells = [list(rows[0]), *([_cut(str(value)) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 3]}..."
