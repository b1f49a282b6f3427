"""The forecast of `mbe inspect` for problems that know more about a search than a trial shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mbe_stage.options import Execution
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.views.core_sizes import CoreSize

__all__ = ["Prospect", "Trying"]


@dataclass(frozen=True, slots=True)
class Trying:
    """A trial to run.

    Attributes
    ----------
    graph, query
        Of the problem's own types.
    seconds : float
        Time limit.
    key_types : (pa.DataType, pa.DataType)
        Of the left and right keys.
    seed : int
        Seed of random draws.
    """

    graph: Any
    query: Any
    seconds: float
    engine: str
    execution: Execution
    config: Config
    key_types: tuple[Any, Any]
    cores: Sequence[CoreSize]
    seed: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """The forecast.

    Attributes
    ----------
    trial, estimate
        Dataclasses of plain values, for ``--json``; `estimate` is None if the problem has none.
    lines : sequence of (str, str)
        Label and text, for the terminal.
    suggestions : sequence of str
        What to try first.
    """

    trial: Any
    estimate: Any
    lines: Sequence[tuple[str, str]]
    suggestions: Sequence[str]
