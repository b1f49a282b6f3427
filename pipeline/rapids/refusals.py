"""The reason why the host has to take an input."""

from __future__ import annotations

__all__ = ["HostNeeded"]


class HostNeeded(Exception):
    """The device does not take this input as it is: the host's reader judges it, and refuses or cleans it.

    So one set of rules and messages decides about everything unusual. The text is the reason, for the log.
    """
