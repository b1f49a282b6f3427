"""The result of a run of any problem as text and as values: the number of results, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.base import ResultText
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.problems.searched_graph import SearchedGraph, graph_of_input
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.wording import plural
from mbe_stage.problem import problem_named


def text_of_run(run_dir: Path, manifest: Manifest) -> ResultText | None:
    """Return the text of a published run whose results are numbers; else None."""
    numbers = publication_of(manifest.problem).numbers
    return None if numbers is None else numbers.text_of_run(run_dir, manifest)


def searched_graph(config: Config, facts: InputFacts, graph: Any) -> SearchedGraph:
    """Return the size of the graph that a problem searches.

    Parameters
    ----------
    graph
        The result of `Publication.graph`.
    """
    made = publication_of(config.problem).made_of_input(config)
    return graph_of_input(facts) if made is None else SearchedGraph(graph.n, graph.n_edges, made)


def found(problem: str, n_found: int, text: ResultText | None) -> str:
    """Return the result in words."""
    return plural(n_found, *publication_of(problem).unit) if text is None else text.headline


def values(problem: str, n_found: int, text: ResultText | None) -> Mapping[str, Any]:
    """Return the result as plain values by name."""
    return {publication_of(problem).counted: n_found} if text is None else text.values


def listed(manifest: Manifest) -> str:
    """Return the text of a run in a list of runs."""
    numbers = publication_of(manifest.problem).numbers
    return f"{manifest.n_found:,}" if numbers is None else numbers.listed(manifest)


def passing(problem: str) -> str:
    """Return the name of the objects in the blocks of a search."""
    return problem_named(problem).passing or publication_of(problem).counted
