"""Dask clusters: an external one at an address, or local processes.

Dask's tracebacks about a lost scheduler are silenced; `ClusterLost` reports it in one line.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mbe_stage.errors import ClusterLost, EngineUnavailable, InvalidArgument
from mbe_stage.options import Execution
from mbe_stage.runners import lease_work
from mbe_stage.runners.dask_runner import DaskRunner

# Loggers of a client and of its event loops. A filter applies to its own logger only, not to child loggers.
_LOGGERS = (
    "asyncio",
    "distributed.batched",
    "distributed.client",
    "distributed.comm.tcp",
    "distributed.core",
    "distributed.scheduler",
    "distributed.utils",
    "tornado.application",
)
# Prefix of a scheduler's log line when it loses a worker during a request. The caller handles the loss.
_NOT_ANSWERED = "broadcast to "
log = logging.getLogger(__name__)
# A worker that ends during its start is reported in one line; Dask would log a traceback per process.
_QUIET = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
# Dask samples every process for a dashboard that is never opened here. That takes 4.5 % of a core per process by
# default, and 1.5 % with these settings (distributed 2026.8).
_SAMPLED_SELDOM = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}


@contextmanager
def quiet_without_scheduler(client: Any) -> Iterator[Any]:
    """Demote Dask's messages about a lost scheduler, lost connections and missing answers to debug level.

    Leave the context only when the client is closed: closing logs its pending requests.
    """

    def passes(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_reported = isinstance(error, OSError) or record.getMessage().startswith(_NOT_ANSWERED)
        if (client.status == "running" or record.name == "distributed.scheduler") and not is_reported:
            return True
        log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)
        return False

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(passes)
    try:
        yield client
    finally:
        for logger in loggers:
            logger.removeFilter(passes)


@contextmanager
def dask_cluster(
    address: str | None = None,
    *,
    workers: int | None = None,
    threads: int | None = None,
    gpus: bool = False,
    problem: str | None = None,
) -> Iterator[DaskRunner]:
    """Yield a runner of a cluster: an external one at an address, or local processes that end with the context.

    Parameters
    ----------
    address : str, optional
        Address of a scheduler, such as ``tcp://host:8786`` or ``tls://host:8786``, or the path of its scheduler file.
    workers : int, optional
        Number of local processes; by default one per core. Not with an address.
    threads : int, optional
        Threads of each process; by default the cores are divided among the processes. Not with GPUs.
    gpus : bool
        True for one worker per local GPU, at most `workers`, for the engine ``cuda``. Ignored with an address.
    problem : str, optional
        Problem whose engine ``cpu`` the local processes load before the context begins (`DaskRunner.load`). Ignored
        with an address or GPUs.

    Raises
    ------
    EngineUnavailable
        Dask is not installed, or GPUs are requested and dask-cuda is not installed.
    ClusterLost
        No scheduler answers at the address, or a local worker ended while it started.
    InvalidArgument
        `workers` or `threads` with an address or below 1; an unknown problem, or one without an engine ``cpu``.
    """
    try:
        distributed = _distributed()
    except ImportError as error:
        raise EngineUnavailable(
            f"Dask cannot be used here ({error}): pip install 'mbe-stage[dask]', or take the runner local"
        ) from None
    for name, number in (("workers", workers), ("threads", threads)):
        if number is not None and (address is not None or number < 1):
            raise InvalidArgument(
                f"{name} is {number}: expected 1 or more, for a cluster of this machine; one at an address has its own"
            )
    if address is not None:
        with _connected(address) as client:
            yield DaskRunner(client)
        return
    with ExitStack() as ends:
        room = ends.enter_context(_own_room())
        try:
            with _settings(room):
                cluster = ends.enter_context(_of_gpus(workers) if gpus else _of_cores(workers, threads))
            client = ends.enter_context(quiet_without_scheduler(distributed.Client(cluster)))
            ends.enter_context(client)
            client.run(lease_work.ignore_interrupts)
        # Dask raises any of these if a process ends before it answers.
        except (OSError, TimeoutError, RuntimeError) as error:
            raise ClusterLost(
                f"a worker ended while the cluster of this machine started ({error.__cause__ or error}): expected all "
                "workers to stay; give each memory, take fewer --workers, or, in a script of yours, start the cluster "
                "below if __name__ == '__main__'"
            ) from None
        runner = DaskRunner(client, shares_machine=True)
        if problem is not None and not gpus:
            runner.load(problem)
        yield runner


def _distributed() -> Any:
    """Import the library; Any, because it has no types."""
    return importlib.import_module("distributed")


def _dask_cuda() -> Any:
    """Import the library; only a cluster of GPUs needs it."""
    return importlib.import_module("dask_cuda")


def _own_room() -> tempfile.TemporaryDirectory[str]:
    """Return a directory that only this user may enter, below the user's directory for Dask.

    Dask's own directory is shared by all users, and Python imports modules from it.
    """
    config = importlib.import_module("dask").config
    below = config.get("temporary-directory", None)
    return tempfile.TemporaryDirectory(prefix="mbe-dask-", dir=below, ignore_cleanup_errors=True)


@contextmanager
def _settings(room: str) -> Iterator[None]:
    """Apply our settings to present and future processes, except where the user has changed the defaults."""
    config = importlib.import_module("dask").config
    defaults = config.merge(*config.defaults)
    ours = {key: value for key, value in _SAMPLED_SELDOM.items() if config.get(key) == config.get(key, config=defaults)}
    with config.set(ours | {"temporary-directory": room}):
        yield


def _of_cores(workers: int | None, threads: int | None) -> Any:
    cores = Execution().worker_count
    n = cores if workers is None else workers
    threads_each = max(1, cores // n) if threads is None else threads
    return _private(_distributed().LocalCluster, n_workers=n, threads_per_worker=threads_each, processes=True)


def _private(kind: Any, **given: Any) -> Any:
    """Start a cluster that only its own processes can reach: certificates stay in memory, and there is no HTTP."""
    try:
        security = _distributed().Security.temporary()
    except ImportError as error:
        raise EngineUnavailable(f"Dask cannot be used safely here ({error}): pip install 'mbe-stage[dask]'") from None
    nodes = importlib.import_module("mbe_stage.runners.closed_nodes")
    return nodes.without_http(kind)(security=security, worker_class=nodes.ClosedNanny, **given, **_QUIET)


def _of_gpus(workers: int | None) -> Any:
    """Start one worker per GPU; it sees that GPU first."""
    try:
        dask_cuda = _dask_cuda()
    except ImportError as error:
        raise EngineUnavailable(
            f"a cluster of this machine's GPUs cannot be made ({error}): pip install dask-cuda; or take engine cpu, "
            "the runner local, or a cluster whose workers have GPUs, by its address"
        ) from None
    # Most time is spent on the device: one thread is enough to feed it.
    given = {} if workers is None else {"n_workers": workers}
    return _private(dask_cuda.LocalCUDACluster, threads_per_worker=1, **given)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    given = {"scheduler_file": address} if "://" not in address and address.endswith(".json") else {"address": address}
    log.info("connecting to the scheduler at %s", address)
    try:
        client = _distributed().Client(**given)
    # Dask raises the last two if one side speaks TLS and the other has no certificate, or the reverse.
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterLost(
            f"{address}: no scheduler answers there ({error}); expected tcp://host:port, tls://host:port or a "
            "scheduler file; start it, or correct the address"
        ) from None
    with quiet_without_scheduler(client), client:
        yield client
