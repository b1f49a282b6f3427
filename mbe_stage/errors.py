"""Errors of the stage.

::

    StageError
    ├── InvalidArgument (also ValueError)   an argument is wrong; the message names it and the remedy
    ├── EngineUnavailable                   the chosen engine cannot run here; the message says why and what would
    ├── ClusterLost                         workers or scheduler of a cluster are gone, and the work is not finished
    ├── DeviceLost                          a GPU failed, and others cannot repeat its work
    └── MemoryBudgetExceeded                the graph cannot be enumerated within the stated budget
"""

__all__ = ["STOPPED_BY_MEMORY"]
__all__ += ["ClusterLost", "DeviceLost", "EngineUnavailable", "InvalidArgument", "MemoryBudgetExceeded", "StageError"]


class StageError(Exception):
    """Base of every error that the stage raises on purpose."""


class InvalidArgument(StageError, ValueError):
    """An argument is wrong: the message names it, what was received, what was expected and the remedy."""


class EngineUnavailable(StageError):
    """The requested engine cannot run on this machine."""


class ClusterLost(StageError):
    """The cluster is gone, or loses every worker that gets part of the work."""


class DeviceLost(StageError):
    """One of several GPUs failed after part of its results was handed on: others cannot repeat its work."""


STOPPED_BY_MEMORY = "stopped at the memory budget"
"""Start of the reason of a search that ended there, and returned its results so far."""


class MemoryBudgetExceeded(StageError):
    """The graph needs more working memory than the budget; the message says which budget would do.

    Attributes
    ----------
    needed_bytes : int or None
        That budget, if known.
    has_begun : bool
        True if results had been handed out before: then no other engine takes over.
    """

    def __init__(self, message: str, *, needed_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.has_begun = False
