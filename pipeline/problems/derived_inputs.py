"""The facts in a manifest about files named in the sections of derived outputs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.cli.terminal import shortened, visible

_SHOWN_CLASSES = 20


class LabelClass(BaseModel):
    """A class of labels: how many keys have it, and how it was taken; ``ignored`` keys count as unlabelled."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    taken: Literal["positive", "negative", "ignored"]
    keys: int


class DerivedInput(BaseModel):
    """A list of keys that a run was given beside its edges.

    Attributes
    ----------
    source : str
        The path as given.
    rows : int
        Distinct ones.
    fingerprint : str
        Of what it says, whatever its format.
    n_not_in_graph : int
        Keys that are no vertex.
    not_in_graph : tuple of str
        The first few of these, with their side: ``left 'ann'``.
    classes : tuple of LabelClass
        Of labels, by name.
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
        """One line about the classes, those with most keys first; empty without classes."""
        ordered = sorted(self.classes, key=lambda each: (-each.keys, each.name))
        shown = [f"{visible(repr(shortened(c.name, 40)))} {c.taken} ({c.keys:,})" for c in ordered[:_SHOWN_CLASSES]]
        return ", ".join(shown) + (
            f" and {len(ordered) - len(shown):,} more classes" if len(ordered) > len(shown) else ""
        )
