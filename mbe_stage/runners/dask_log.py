"""Silence Dask's tracebacks about a lost scheduler, which `ClusterLost` reports in one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["quiet_without_scheduler"]

log = logging.getLogger(__name__)

# Where a client logs, and the loops of events that it runs on. A filter is about what is logged there, not below.
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
# Of a scheduler in this process, where a worker was asked something and is lost: whoever asked says what becomes of it.
_NOT_ANSWERED = "broadcast to "


@contextmanager
def quiet_without_scheduler(client: Any) -> Iterator[Any]:
    """Log as details what Dask logs while the client has no scheduler, and of connections and answers that were lost.

    To be left when the client is closed: what it was waiting for is logged then.
    """

    def passes(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_told = isinstance(error, OSError) or record.getMessage().startswith(_NOT_ANSWERED)
        if (client.status == "running" or record.name == "distributed.scheduler") and not is_told:
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
