"""Public names of clean edges with dense ids, the result of ingestion."""

from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.facts import InputColumn, InputFacts, UndirectedFacts

__all__ = ["EdgeData", "InputColumn", "InputFacts", "UndirectedFacts"]
