"""The command `mbe explore`."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.cases.verdicts import Verdicts, verdicts_path
from mbe_stage.pipeline.cli.terminal import say
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.safe_paths import is_directory
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import opened_run
from mbe_stage.pipeline.views.listed_groups import group_rows

_PACKAGES = ("duckdb", "starlette", "uvicorn")


def explore(run_path: str, verdicts: Path | None, port: int) -> None:
    """Serve the page of a run until a signal ends the process.

    Parameters
    ----------
    run_path : str
        A run, or an output directory.
    verdicts : Path, optional
        The file of verdicts; by default that of the output directory.
    port : int
        0 takes a free one.

    Raises
    ------
    ConfigError
        The extra `explore` is not installed, or the port cannot be used.
    PublishError
        The run has no groups, or cannot be read.
    """
    with opened_run(run_path) as run_dir:
        # Before anything is served, and before a missing package is reported.
        group_rows(run_dir, 0)
        file = verdicts_path(_directory_of(run_dir)) if verdicts is None else verdicts
        try:
            from mbe_stage.pipeline.cases.explore.pages import Explorer
            from mbe_stage.pipeline.cases.explore.server import Server
        except ModuleNotFoundError as error:
            if error.name not in _PACKAGES:
                raise
            raise ConfigError(
                f"mbe explore: needs {error.name}, which is not installed; expected the extra explore; install it: "
                "pip install 'mbe-stage[explore]'"
            ) from None
        server = Server(Explorer(run_dir, Verdicts.open(file), _runs_beside(run_dir)), port)
        server.start()
        say(f"explore    {server.address}")
        say("           open this address in a browser of this machine; it works once. Ctrl-C ends the page")
        server.wait()


def _directory_of(run_dir: Path) -> str:
    """Return the output directory of a run, or its address; of a run elsewhere, the directory that holds it."""
    place = address_of(run_dir.resolve())
    return place.rpartition("/runs/")[0] or place.rpartition("/")[0]


def _runs_beside(run_dir: Path) -> dict[str, Path]:
    """Return the other runs with groups in the same directory by name, the newest first."""
    run_dir = run_dir.resolve()
    places = sorted(run_dir.parent.iterdir(), reverse=True) if run_dir.parent.name == "runs" else []
    return {
        place.name: place
        for place in places
        if place != run_dir and is_directory(place) and (place / "groups.parquet").is_file()
    }
