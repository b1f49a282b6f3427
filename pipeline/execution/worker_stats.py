"""Statistics of the members that shared a search: workers of a cluster, or devices of this machine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.wording import bytes_text, percent_text, plural

if TYPE_CHECKING:
    from mbe_stage.stream import StreamFacts

log = logging.getLogger(__name__)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WorkerTime(_Frozen):
    """Statistics of one member.

    Attributes
    ----------
    name : str
        The member's address or another name.
    device : str
        The device that the engine ran on.
    found : int
        Number of accepted results.
    bytes : int
        Bytes sent, or written if `writes` is true.
    writes : bool
        True if the member wrote parts of the tables instead of sending results.
    leases : int
        Number of leases whose results were accepted.
    busy_seconds : float
        Working time on these leases.
    busy : float
        The same time as a share of the search.
    """

    name: str
    device: str
    found: int
    bytes: int
    writes: bool
    leases: int
    busy_seconds: float
    busy: float


class WorkerStats(_Frozen):
    """Statistics of all members.

    Attributes
    ----------
    seconds : float
        Wall time of the shared search.
    skew : float
        Excess of the longest working time over the mean: 0 if all are equal.
    """

    seconds: float
    skew: float
    each: tuple[WorkerTime, ...]

    def lines(self) -> list[tuple[str, str]]:
        """Lines for people: one per member, with its name first, and one about all."""
        lines = [(rank.name, _in_words(rank)) for rank in self.each]
        skew = percent_text(self.skew, 0, "%")
        return [*lines, ("skew", f"longest busy time {skew} above the mean, in {self.seconds:.1f} s")]


def worker_stats_of(facts: StreamFacts) -> WorkerStats | None:
    """Return the statistics of a search and log them; None if this process did all of it."""
    if not facts.ranks:
        return None
    longest = max(facts.rank_seconds, 1e-9)
    each = tuple(
        WorkerTime(
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
    ranks = WorkerStats(seconds=round(facts.rank_seconds, 6), skew=skew, each=each)
    for name, did in ranks.lines():
        log.info("%s: %s", name, did)
    return ranks


def _skew(seconds: Sequence[float]) -> float:
    mean = sum(seconds) / len(seconds)
    return round(max(seconds) / mean - 1.0, 4) if mean > 0 else 0.0


def _in_words(rank: WorkerTime) -> str:
    did = "written" if rank.writes else "sent"
    return (
        f"{plural(rank.found, 'result')}, {bytes_text(rank.bytes)} {did}, {plural(rank.leases, 'lease')}, "
        f"busy {percent_text(rank.busy, 0, '%')}; {rank.device}"
    )
