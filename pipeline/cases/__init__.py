"""Cases of published runs: read, decided on, exported and reported to other systems."""

from typing import Literal

System = Literal["neo4j", "neptune", "fraud-gnn", "cxt"]
"""A system that `graph_files` writes for."""
