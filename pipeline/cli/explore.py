"""The command `mbe explore`."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.cases.deciding import verdicts_of_run
from mbe_stage.pipeline.cli.show import tables_of_groups
from mbe_stage.pipeline.cli.terminal import say
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.safe_paths import is_directory
from mbe_stage.pipeline.stores.open_store import opened_run
from mbe_stage.pipeline.views.listed_groups import check_groups

_PACKAGES = ("duckdb", "starlette", "uvicorn")


def explore(run_path: str, verdicts: str | None, port: int) -> None:
    """Serve the page of a run until a signal ends the process; port 0 takes a free one."""
    with opened_run(run_path) as run_dir:
        # Check this before serving, and before reporting a missing package.
        check_groups(run_dir)
        decisions = verdicts_of_run(run_dir, verdicts)
        try:
            from mbe_stage.pipeline.cases.explore.pages import Explorer
            from mbe_stage.pipeline.cases.explore.server import Server
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _PACKAGES:
                raise
            raise ConfigError(
                f"mbe explore: needs {package}, which is not installed; expected the extra explore; install it: "
                "pip install 'mbe-stage[explore]'"
            ) from None
        with tables_of_groups(run_dir):
            explorer = Explorer(run_dir, decisions, _runs_beside(run_dir))
        server = Server(explorer.app(), port)
        server.start()
        say(f"explore    {server.address}")
        say("           open this address in a browser of this machine; it works once. Ctrl-C ends the page")
        server.wait()


def _runs_beside(run_dir: Path) -> dict[str, Path]:
    """Return the other runs with groups in the same directory by name, the newest first."""
    run_dir = run_dir.resolve()
    places = sorted(run_dir.parent.iterdir(), reverse=True) if run_dir.parent.name == "runs" else []
    return {
        place.name: place
        for place in places
        if place != run_dir and is_directory(place) and (place / "groups.parquet").is_file()
    }
