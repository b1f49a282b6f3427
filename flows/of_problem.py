"""The flow of bicliques for other problems; tasks, retries, locks and the skip are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State

from mbe_stage.flows import enumerate as bicliques
from mbe_stage.flows.enumerate import completed, run_as_flow
from mbe_stage.pipeline.config.model import Config


def flow_of(problem: str, place: str, name: str, about: str) -> tuple[Callable[..., Config], Flow[..., Any]]:
    """Return a function that loads a configuration of a problem (as `flows.enumerate.configure`), and its flow.

    Parameters
    ----------
    place : str
        Module and name of the flow, by which Prefect finds it.
    name : str
        Prefect's name of the flow.
    about : str
        One sentence about the flow.
    """

    def configure(
        config_path: str | None = None,
        input_path: str | None = None,
        output_directory: str | None = None,
        overrides: Sequence[str] = (),
    ) -> Config:
        return bicliques.configure(config_path, input_path, output_directory, [*overrides, f"problem={problem}"])

    def run(
        config_path: str | None = None,
        input_path: str | None = None,
        output_directory: str | None = None,
        overrides: Sequence[str] = (),
        force: bool = False,
    ) -> State[dict[str, Any]]:
        return run_as_flow(lambda: configure(config_path, input_path, output_directory, overrides), force, completed)

    run.__module__, _, run.__name__ = place.rpartition(".")
    run.__qualname__ = run.__name__
    run.__doc__ = f"{about}\n\nParameters and result: `flows.enumerate.enumerate_bicliques_flow`, without `notify`."
    return configure, flow(name=name, persist_result=False)(run)
