"""Facts of each participant in a shared search: workers of a cluster, or devices of this machine."""

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
        Number of its results that were accepted.
    n_bytes : int
        Bytes of its messages with results, or of its parts.
    makes_parts : bool
        True if it made parts instead of sending results.
    busy_seconds : float
        Time spent on results that were accepted; late or lost work is not counted.
    """

    address: str
    device: str = ""
    n_found: int = 0
    n_bytes: int = 0
    makes_parts: bool = False
    n_leases: int = 0
    busy_seconds: float = 0.0


def busy_shares(ranks: Sequence[RankFacts], seconds: float) -> tuple[float, ...]:
    """Return each participant's share of time at work, in a search that took `seconds`."""
    return tuple(rank.busy_seconds / max(1e-9, seconds) for rank in ranks)
