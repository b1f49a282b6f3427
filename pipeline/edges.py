"""Clean edges with dense ids: what ingestion hands to everything after it, by its public names."""

from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.facts import InputColumn, InputFacts, UndirectedFacts

__all__ = ["EdgeData", "InputColumn", "InputFacts", "UndirectedFacts"]
