"""Fall back to the next tier if `auto` chose `rapids` and its memory is too small.

As between engines (`mbe_stage.stream`), this happens only before the first result, and with a warning. Later the error
stays: another tier may need as long again, or can resume from the last checkpoint on request.
"""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mbe_stage.engines import AUTO, choose_engine
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.tiers import RAPIDS, Tier, choose_tier
from mbe_stage.pipeline.problems.installed import derived_of
from mbe_stage.stream import Listener, wants_outlook

__all__ = ["OnProgress", "noting_the_beginning", "on_a_tier_that_fits"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")
OnProgress = Callable[[Any], None]
"""Receives the progress of a search: `Publication.progress`."""


def on_a_tier_that_fits(
    config: Config,
    work: Callable[[Tier, tuple[str, ...], OnProgress], Result],
    on_progress: OnProgress | None = None,
) -> Result:
    """Do a whole job on the tier of `execution.engine`, or on the next one.

    Parameters
    ----------
    work : callable
        Takes the tier, the warnings of its choice, and a progress callback; starts over when called again.
    on_progress : callable, optional
        Called after every block.

    Raises
    ------
    EngineUnavailable
        As `pipeline.execution.tiers.choose_tier`.
    MemoryBudgetExceeded
        No other tier may take over.
    """
    tier = choose_tier(config.execution, config.problem, derived_of(config))
    try:
        with noting_the_beginning(on_progress) as note:
            return work(tier, (), note)
    except MemoryBudgetExceeded as refusal:
        found = _next_tier(config, tier, refusal)
        if found is None:
            raise
        # The frames of the failure hold its arrays, and the next tier may need the memory of the same GPU.
        traceback.clear_frames(refusal.__traceback__)
    other, warning = found
    gc.collect()
    return work(other, (warning,), on_progress or _ignore)


def _next_tier(config: Config, tier: Tier, refusal: MemoryBudgetExceeded) -> tuple[Tier, str] | None:
    """Return the tier that takes over and the warning, which is logged; None if the error stays."""
    if config.execution.engine != AUTO or tier.name != RAPIDS or refusal.has_begun:
        return None
    name, _ = choose_engine(config.problem)
    warning = (
        f"tier auto: {tier.name} had too little device memory before the first result, and {name} takes over; "
        f"{tier.name} reported: {refusal}"
    )
    log.warning("%s", warning)
    return Tier(name, name, f"{RAPIDS} had too little device memory"), warning


@contextmanager
def noting_the_beginning(on_progress: OnProgress | None) -> Iterator[OnProgress]:
    """Wrap the progress callback, so that memory errors leaving the context know if results were handed out."""
    has_begun = False

    def note(progress: Any) -> None:
        nonlocal has_begun
        has_begun = has_begun or progress.n_found > 0
        if on_progress is not None:
            on_progress(progress)

    try:
        yield Listener(note, wants_outlook(on_progress))
    except MemoryBudgetExceeded as refusal:
        refusal.has_begun = refusal.has_begun or has_begun
        raise


def _ignore(_progress: object) -> None:
    pass
