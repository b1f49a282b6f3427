"""The flow of (p, q)-counts: edges in, a table of counts out, per vertex and edge if requested.

It is the flow of bicliques with another problem: tasks, retries, locks and the skip are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from mbe_stage.flows import enumerate as bicliques
from mbe_stage.flows.enumerate import completed, run_as_flow
from mbe_stage.pipeline.config.model import Config

__all__ = ["configure", "count_pq_flow"]


def configure(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
) -> Config:
    """Load a configuration of counts; see `flows.enumerate.configure`.

    Raises
    ------
    ConfigError
        The file, a key or a value cannot be used, or belongs to bicliques only.
    """
    return bicliques.configure(config_path, input_path, output_directory, [*overrides, "problem=pq_counts"])


@flow(name="count-pq-bicliques", persist_result=False)
def count_pq_flow(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
) -> State[dict[str, Any]]:
    """Count the (p, q)-bicliques of a graph, one count or a table of them, and publish them.

    Parameters
    ----------
    config_path : str, optional
        YAML configuration; without it every default holds.
    input_path, output_directory : str, optional
        In place of `input.path` and `output.directory`.
    overrides : sequence of str
        ``section.key=value``, each with a YAML value.
    force : bool
        Count even if input and configuration are those of the latest run.

    Returns
    -------
    State
        As of `flows.enumerate.enumerate_bicliques_flow`, with the counts as ``counts``, and ``lower_bounds``, true if a
        limit ended the search.
    """
    return run_as_flow(lambda: configure(config_path, input_path, output_directory, overrides), force, completed)


if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("count_pq")
