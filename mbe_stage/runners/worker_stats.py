"""Facts of each participant of a shared search: workers of a cluster, or devices of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class RankFacts:
    """Facts of a worker's share of a job.

    Attributes
    ----------
    device : str
        What the engine ran on there.
    n_found : int
        Results that were taken from it.
    n_bytes : int
        Of messages with them, or of the parts that were made of them there.
    makes_parts : bool
        True if it has made parts, and sent no results.
    busy_seconds : float
        At work on what was taken; work that came too late or was lost is not in it.
    """

    address: str
    device: str = ""
    n_found: int = 0
    n_bytes: int = 0
    makes_parts: bool = False
    n_leases: int = 0
    busy_seconds: float = 0.0


def busy_shares(ranks: Sequence[RankFacts], seconds: float) -> tuple[float, ...]:
    """Share of a search of so many seconds that each was at work."""
    return tuple(rank.busy_seconds / max(1e-9, seconds) for rank in ranks)
