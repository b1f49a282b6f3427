"""Errors of the stage.

::

    StageError
    ├── InvalidArgument (also ValueError)   an argument is wrong; the message names it and the remedy
    ├── EngineUnavailable                   the chosen engine cannot run here; the message gives reason and remedy
    ├── ClusterLost                         a cluster lost its workers or scheduler before the work was finished
    ├── DeviceLost                          a GPU failed, and the others cannot repeat its work
    └── MemoryBudgetExceeded                the graph cannot be searched within the memory budget
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
    """The cluster is gone, or too many workers were lost with the same part of the work."""


class DeviceLost(StageError):
    """One of several GPUs failed after part of its results was delivered, so others cannot repeat its work."""


STOPPED_BY_MEMORY = "stopped at the memory budget"
"""Prefix of the reason if a search stopped at the memory budget and kept its results so far."""


class MemoryBudgetExceeded(StageError):
    """The graph needs more working memory than the budget; the message names a sufficient budget if it is known.

    Attributes
    ----------
    needed_bytes : int or None
        A sufficient budget, if known.
    has_begun : bool
        True if results had been delivered before; then no other engine takes over.
    """

    def __init__(self, message: str, *, needed_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.has_begun = False
