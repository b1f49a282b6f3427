"""Whether an input is where a path or an address says."""

from __future__ import annotations

import logging
from pathlib import Path

from mbe_stage.errors import StageError
from pipeline.stores.address import is_address, place_of

__all__ = ["is_there", "was_in_memory"]

log = logging.getLogger(__name__)


def is_there(place: str) -> bool:
    """Whether there is anything; what cannot be asked for is not there, and a warning says why."""
    try:
        place = place_of(place)
        if not is_address(place):
            return Path(place).exists()
        from pipeline.stores.remote_input import something_is_at

        return something_is_at(place)
    except StageError as error:
        log.warning("%s", error)
        return False


def was_in_memory(source: str) -> bool:
    """Whether an input was no file but an object of Python, as its name in a manifest says (``memory:pandas``)."""
    return source.startswith("memory:") and not is_address(source)
