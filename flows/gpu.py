"""One run at a time per GPU: a concurrency limit of Prefect's server, or a lock without a server."""

from __future__ import annotations

import logging
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from mbe_stage.flows.server import has_lasting_server
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.tiers import Tier
from mbe_stage.pipeline.publish.locks import locked

__all__ = ["device_limit_name", "device_slot"]

_Log = logging.Logger | logging.LoggerAdapter[Any]


@contextmanager
def device_slot(tier: Tier, log: _Log) -> Iterator[Callable[[], None]]:
    """Wait for the GPU and hold it within the context; does nothing for a tier without a GPU.

    Two runs on one device would each find half the memory they planned with. With a scheduling server, the slot is one
    of its concurrency limit for the device. The limit is created if it is missing and kept if a user has raised it. A
    single run with its own server takes a lock of the operating system instead, because that server would still count
    the slot after a kill.

    Yields
    ------
    callable
        Releases the GPU before the context ends; later calls do nothing.
    """
    with ExitStack() as held:
        if tier.uses_gpu:
            name = device_limit_name()
            held.enter_context(_server_slot(name, log) if has_lasting_server() else _machine_lock(name, log))
            log.info("holding %s", name)
        yield held.close


def device_limit_name() -> str:
    """Return the name of the limit: the first visible device of this process, and the machine's name.

    Examples
    --------
    With ``CUDA_VISIBLE_DEVICES=2,3`` on the machine ``dgx``: ``gpu-2@dgx``; without it: ``gpu-0@dgx``.
    """
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
    return f"gpu-{device.replace('/', '-')}@{socket.gethostname()}"


@contextmanager
def _server_slot(name: str, log: _Log) -> Iterator[None]:
    _make_limit(name)
    log.info(
        "waiting for the concurrency limit %s; if no run holds it (a killed server forgets the holder), free it: "
        "prefect gcl update %s --active-slots 0",
        name,
        name,
    )
    with concurrency(name, occupy=1):
        yield


@contextmanager
def _machine_lock(name: str, log: _Log) -> Iterator[None]:
    file = _opened(Path(tempfile.gettempdir(), f"mbe-{name}.lock"))
    with locked(file, lambda: log.info("waiting for %s: another run on this machine holds it", name)):
        yield


def _opened(path: Path) -> IO[bytes]:
    # A lock needs read access only, and O_CREAT fails on another user's file in a shared directory. Another user may
    # have made a link or a pipe of that name.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o644)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
        reason = "no regular file"
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    raise PublishError(
        f"{path}: cannot be locked ({reason}); expected a file that mbe has made; remove it, or set TMPDIR to a "
        "directory of your own"
    )


def _make_limit(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            try:
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
            except ObjectAlreadyExists:
                # Another run created it first.
                return
