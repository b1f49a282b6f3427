"""What each of those did that shared a search: workers of a cluster, or devices of this machine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.wording import bytes_text, percent_text, plural

if TYPE_CHECKING:
    from mbe_stage.stream import StreamFacts

__all__ = ["Rank", "Ranks", "ranks_of"]

log = logging.getLogger(__name__)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rank(_Frozen):
    """One of them.

    Attributes
    ----------
    name : str
        Its address, or what else it is called.
    device : str
        What the engine ran on there.
    found : int
        Results that were taken from it.
    bytes : int
        That it has sent, or written where `writes` is true.
    writes : bool
        Whether it wrote parts of the tables, and sent no results.
    leases : int
        How often it was given roots, of which the results were taken.
    busy_seconds : float
        At work on them.
    busy : float
        The same as a share of the search.
    """

    name: str
    device: str
    found: int
    bytes: int
    writes: bool
    leases: int
    busy_seconds: float
    busy: float


class Ranks(_Frozen):
    """All of them.

    Attributes
    ----------
    seconds : float
        Wall time of the search that they shared.
    skew : float
        How much longer than the mean the one was at work that was the longest: 0 where all were for as long.
    """

    seconds: float
    skew: float
    each: tuple[Rank, ...]

    def lines(self) -> list[tuple[str, str]]:
        """For people: one line each, with its name first, and one on all."""
        lines = [(rank.name, _in_words(rank)) for rank in self.each]
        skew = percent_text(self.skew, 0, "%")
        return [*lines, ("skew", f"{skew} above the mean of what they were at work, in {self.seconds:.1f} s")]


def ranks_of(facts: StreamFacts) -> Ranks | None:
    """Those of a search; None where this process did all of it. They are logged."""
    if not facts.ranks:
        return None
    longest = max(facts.rank_seconds, 1e-9)
    each = tuple(
        Rank(
            name=rank.address,
            device=rank.device,
            found=rank.n_found,
            bytes=rank.n_bytes,
            writes=getattr(rank, "makes_parts", False),
            leases=rank.n_leases,
            busy_seconds=round(rank.busy_seconds, 6),
            busy=round(rank.busy_seconds / longest, 4),
        )
        for rank in facts.ranks
    )
    skew = _skew([rank.busy_seconds for rank in each])
    ranks = Ranks(seconds=round(facts.rank_seconds, 6), skew=skew, each=each)
    for name, did in ranks.lines():
        log.info("%s: %s", name, did)
    return ranks


def _skew(seconds: Sequence[float]) -> float:
    mean = sum(seconds) / len(seconds)
    return round(max(seconds) / mean - 1.0, 4) if mean > 0 else 0.0


def _in_words(rank: Rank) -> str:
    did = "written" if rank.writes else "sent"
    return (
        f"{plural(rank.found, 'result')}, {bytes_text(rank.bytes)} {did}, {plural(rank.leases, 'lease')}, "
        f"busy {percent_text(rank.busy, 0, '%')}; {rank.device}"
    )
