"""Whether an input is where a path or an address says."""

from __future__ import annotations

import glob
import logging
from collections.abc import Sequence
from pathlib import Path

from mbe_stage.errors import StageError
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, place_of

__all__ = ["is_there", "was_in_memory"]

log = logging.getLogger(__name__)


def is_there(place: str | Sequence[str]) -> bool:
    """Whether there is anything; what cannot be asked for is not there, and a warning says why.

    Of several places all have to be there. Standard input never is: it was read once.
    """
    if not isinstance(place, str):
        return all(map(is_there, place))
    try:
        place = place_of(place)
        if not is_address(place):
            return place != STANDARD_INPUT and (Path(place).exists() or bool(glob.glob(place, recursive=True)))
        from mbe_stage.pipeline.stores.inputs import something_is_at

        return something_is_at(place)
    except StageError as error:
        log.warning("%s", error)
        return False


def was_in_memory(source: str) -> bool:
    """Whether an input was no file but an object of Python, as its name in a manifest says (``memory:pandas``)."""
    return source.startswith("memory:") and not is_address(source)
