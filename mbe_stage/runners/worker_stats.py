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
        Name of the device that its engine ran on.
    n_found : int
        Results taken from it.
    n_bytes : int
        Bytes of the messages with its results, or of its parts.
    makes_parts : bool
        True if it made parts instead of sending results.
    busy_seconds : float
        Time at work on results that were taken. Work that came too late or was lost is not counted.
    """

    address: str
    device: str = ""
    n_found: int = 0
    n_bytes: int = 0
    makes_parts: bool = False
    n_leases: int = 0
    busy_seconds: float = 0.0


def busy_shares(ranks: Sequence[RankFacts], seconds: float) -> tuple[float, ...]:
    """Return each worker's share of time at work, in a search of this many seconds."""
    return tuple(rank.busy_seconds / max(1e-9, seconds) for rank in ranks)
