"""Where `auto` chose the tier `rapids` and its memory does not suffice, the next tier does the work.

As between engines (`mbe_stage.stream`): before the first result is handed out, and with a warning. Afterwards the
error stays: another tier may need as long again, or goes on from the last checkpoint where it is told to.
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
"""Told where a search stands: `Publication.progress`."""


def on_a_tier_that_fits(
    config: Config,
    work: Callable[[Tier, tuple[str, ...], OnProgress], Result],
    on_progress: OnProgress | None = None,
) -> Result:
    """Do a whole job on the tier that `execution.engine` asks for, or on the one that takes its place.

    Parameters
    ----------
    work : callable
        Takes the tier, the warnings that its choice brings, and whom to tell of progress; begins anew when called anew.
    on_progress : callable, optional
        Called after every block.

    Raises
    ------
    EngineUnavailable
        As `pipeline.execution.tiers.choose_tier`.
    MemoryBudgetExceeded
        Where no other tier may take over.
    """
    tier = choose_tier(config.execution, config.problem, derived_of(config))
    try:
        with noting_the_beginning(on_progress) as note:
            return work(tier, (), note)
    except MemoryBudgetExceeded as refusal:
        found = _next_tier(config, tier, refusal)
        if found is None:
            raise
        # The frames of what failed hold its arrays, and the next tier may need the memory of the same GPU.
        traceback.clear_frames(refusal.__traceback__)
    other, warning = found
    gc.collect()
    return work(other, (warning,), on_progress or _ignore)


def _next_tier(config: Config, tier: Tier, refusal: MemoryBudgetExceeded) -> tuple[Tier, str] | None:
    """The tier that takes over, and the warning that says so, which is logged; None where the error has to stay."""
    if config.execution.engine != AUTO or tier.name != RAPIDS or refusal.has_begun:
        return None
    name, _ = choose_engine(config.problem)
    warning = (
        f"tier auto: {tier.name} had too little device memory before the first result, and {name} takes over. What "
        f"{tier.name} said: {refusal}"
    )
    log.warning("%s", warning)
    return Tier(name, name, f"{RAPIDS} had too little device memory"), warning


@contextmanager
def noting_the_beginning(on_progress: OnProgress | None) -> Iterator[OnProgress]:
    """Whom to tell of progress; errors of memory that leave the context know whether results were handed out."""
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
