"""The section on what differs from the run before, as HTML."""

from __future__ import annotations

from mbe_stage.pipeline.publish.changes import Comparison
from mbe_stage.pipeline.report.rendering import render

__all__ = ["since"]

_WORDS = {"only_in_new": "only in this run", "only_in_old": "only in the run before"}


def since(comparison: Comparison | None) -> str:
    """The whole section; nothing where no comparison was asked for."""
    return "" if comparison is None else render("changes.html", comparison=comparison, words=_WORDS)
