"""Errors of the stage.

::

    StageError
    ├── InvalidArgument (also ValueError)   an argument is wrong; the message names it and the remedy
    ├── EngineUnavailable                   the chosen engine cannot run here; the message says why and what would
    ├── ClusterLost                         workers or scheduler of a cluster are gone, and the work is not finished
    ├── DeviceLost                          a GPU failed, and what it was at cannot be done by others
    └── MemoryBudgetExceeded                the graph cannot be enumerated within the stated budget
"""

__all__ = ["STOPPED_BY_MEMORY"]
__all__ += ["ClusterLost", "DeviceLost", "EngineUnavailable", "InvalidArgument", "MemoryBudgetExceeded", "StageError"]


class StageError(Exception):
    """Base of every error that the stage raises on purpose."""


class InvalidArgument(StageError, ValueError):
    """An argument is wrong: the message names it, what was received, what was expected and the remedy."""


class EngineUnavailable(StageError):
    """The engine that was asked for cannot run on this machine."""


class ClusterLost(StageError):
    """The cluster that was to do the work is gone, or loses whoever gets some of it."""


class DeviceLost(StageError):
    """One of several GPUs failed when part of what it was at had been handed on: others cannot do it again."""


STOPPED_BY_MEMORY = "stopped at the memory budget"
"""How it begins what is said of a search that ended there, and gave what it had found by then."""


class MemoryBudgetExceeded(StageError):
    """The working memory that the graph needs is above the budget; the message says which budget would do.

    Attributes
    ----------
    needed_bytes : int or None
        That budget, where it is known.
    has_begun : bool
        Whether bicliques had been handed out before: then nothing else takes over.
    """

    def __init__(self, message: str, *, needed_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.has_begun = False
