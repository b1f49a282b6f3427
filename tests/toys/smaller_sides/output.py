"""The derived output, as named by an entry point of the group `mbe_stage.problems`."""

from __future__ import annotations

from mbe_stage.problem import DerivedOutput

__all__ = ["OUTPUT"]

OUTPUT = DerivedOutput("smaller_sides", "bicliques", "tests.toys.smaller_sides.publication:PUBLICATION")
