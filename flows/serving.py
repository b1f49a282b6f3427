"""Serve a flow on a schedule from this process, with a clean stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from prefect.flows import EntrypointType, Flow  # type: ignore[attr-defined]  # it is no other name's
from prefect.runner import Runner
from prefect.schedules import Schedule

__all__ = ["serve"]


def serve(
    flow: Flow[..., Any], name: str, schedule: Schedule, parameters: dict[str, Any], tags: Sequence[str] = ()
) -> None:
    """Run `flow` on `schedule` until Ctrl-C, SIGTERM, or SIGHUP (unless it is ignored).

    Stopping cancels the active run, which removes its unfinished work, and pauses the schedule. The next `serve` with
    the same name resumes the schedule. Runs never overlap: a run that is due waits for the one before.
    """
    asyncio.run(_serve(flow, name, schedule, parameters, tags))


async def _serve(
    flow: Flow[..., Any], name: str, schedule: Schedule, parameters: dict[str, Any], tags: Sequence[str]
) -> None:
    runner = _StoppableRunner(name=name, limit=1, pause_on_shutdown=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # as under nohup
        asyncio.get_running_loop().add_signal_handler(number, runner.handle_sigterm)
    try:
        # A deployment by module, so that a run's process imports the package. `Runner.add_flow` would send it this
        # process's modules pickled by value.
        deployment = await flow.ato_deployment(
            name,
            schedule=schedule,
            parameters=parameters,
            tags=list(tags),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        await runner.aadd_deployment(deployment)
        await runner.start()
    except asyncio.CancelledError:
        # Stopped before the runner had started.
        if not runner.is_stopping:
            raise


class _StoppableRunner(Runner):
    """Prefect's runner with a SIGTERM handler that works; `start` installs it, and SIGINT gets the same one.

    The handler of Prefect 3.8 calls `stop` without awaiting it and then exits. That leaves the processes of flow runs
    behind, and waits for them forever.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._serving_loop = asyncio.get_running_loop()
        self._serving_task = asyncio.current_task()
        self._stop: Future[None] | None = None

    def handle_sigterm(self, *_: Any, **__: Any) -> None:
        """Stop, once."""
        if self._stop is None:
            self._stop = asyncio.run_coroutine_threadsafe(self._end(), self._serving_loop)

    @property
    def is_stopping(self) -> bool:
        """True once a signal has arrived."""
        return self._stop is not None

    async def _end(self) -> None:
        if self.started:
            await self.astop()
        elif self._serving_task is not None:
            self._serving_task.cancel()
