"""The facts in a manifest about files named in the sections of derived outputs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.cli.terminal import shortened, visible

_SHOWN_CLASSES = 20


class LabelClass(BaseModel):
    """A class of labels: its number of keys and its meaning; ``ignored`` keys count as unlabelled."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    taken: Literal["positive", "negative", "ignored"]
    keys: int


class DerivedInput(BaseModel):
    """A list of keys that a run read in addition to its edges.

    Attributes
    ----------
    source : str
        The path as given.
    rows : int
        Number of distinct rows.
    fingerprint : str
        Fingerprint of the content, independent of the format.
    n_not_in_graph : int
        Number of keys that are no vertex.
    not_in_graph : tuple of str
        The first few of these, with their side: ``left 'ann'``.
    classes : tuple of LabelClass
        The classes of labels, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    source: str
    rows: int
    fingerprint: str
    n_not_in_graph: int = 0
    not_in_graph: tuple[str, ...] = ()
    classes: tuple[LabelClass, ...] = ()

    @property
    def classes_text(self) -> str:
        """Return one line about the classes, the largest first; empty without classes."""
        ordered = sorted(self.classes, key=lambda each: (-each.keys, each.name))
        shown = [f"{visible(repr(shortened(c.name, 40)))} {c.taken} ({c.keys:,})" for c in ordered[:_SHOWN_CLASSES]]
        return ", ".join(shown) + (
            f" and {len(ordered) - len(shown):,} more classes" if len(ordered) > len(shown) else ""
        )
