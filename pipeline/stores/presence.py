"""Whether an input is where a path or an address says."""

from __future__ import annotations

import logging
from pathlib import Path

from mbe_stage.errors import StageError
from pipeline.stores.address import is_address

__all__ = ["is_there"]

log = logging.getLogger(__name__)


def is_there(place: str) -> bool:
    """Whether there is anything; what cannot be asked for is not there, and a warning says why."""
    if not is_address(place):
        return Path(place).exists()
    from pipeline.stores.remote_input import something_is_at

    try:
        return something_is_at(place)
    except StageError as error:
        log.warning("%s", error)
        return False
