"""One run at a time on a GPU: a concurrency limit of Prefect's server for each device."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from pipeline.tiers import Tier

__all__ = ["device_limit_name", "device_slot"]


@contextmanager
def device_slot(tier: Tier, log: logging.Logger | logging.LoggerAdapter) -> Iterator[None]:
    """Hold the GPU while the context lasts, and wait for it first; nothing for a tier that uses none.

    Two runs at once on a device would each find half the memory that they planned with. The limit is made when the
    server has none of that name; one that somebody has raised stays as it is. A process that is killed lets go of its
    slot after the five minutes of Prefect's lease.
    """
    if not tier.uses_gpu:
        yield
        return
    name = device_limit_name()
    _make_limit(name)
    log.info("waiting for the concurrency limit %s", name)
    with concurrency(name, occupy=1):
        log.info("holding the concurrency limit %s", name)
        yield


def device_limit_name() -> str:
    """The limit of the device that this process uses: the first that it may see, and the machine's name.

    Examples
    --------
    With ``CUDA_VISIBLE_DEVICES=2,3`` on the machine ``dgx``: ``gpu-2@dgx``; without it: ``gpu-0@dgx``.
    """
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
    return f"gpu-{device.replace('/', '-')}@{socket.gethostname()}"


def _make_limit(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            try:
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
            except ObjectAlreadyExists:
                # Another run was faster.
                return
