"""Silence Dask's tracebacks about a lost scheduler, which `ClusterLost` reports in one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["quiet_without_scheduler"]

log = logging.getLogger(__name__)

# Loggers of a client, and of its event loops. A filter applies to records of the logger itself, not of those below it.
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
# Logged by a scheduler in this process when it loses a worker during a request. The caller handles the loss.
_NOT_ANSWERED = "broadcast to "


@contextmanager
def quiet_without_scheduler(client: Any) -> Iterator[Any]:
    """Log at debug level what Dask logs while the client has no scheduler, and about lost connections and answers.

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
