"""`mbe top` and `mbe diff` for problems that show and compare their own results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mbe_stage.pipeline.cli import show
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.problems.base import Shown
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import MANIFEST_NAME

__all__ = ["compared_by_problem", "refuse_of_bicliques", "shown_by_problem"]


def shown_by_problem(run_dir: Path) -> Callable[[Path, int, str | None], Shown] | None:
    """Return `Publication.top` of a run's problem; None if it has none or the problem is unknown."""
    problem = _problem(run_dir)
    return None if problem is None or not is_here(problem) else publication_of(problem).top


def refuse_of_bicliques(run_dir: Path, given: Mapping[str, object]) -> None:
    """Refuse options of bicliques for a run of another problem.

    Parameters
    ----------
    given : mapping of str to object
        True values by option, for the options given.

    Raises
    ------
    ConfigError
        One was given.
    """
    wrong = next((option for option, value in given.items() if value), None)
    if wrong is not None:
        raise ConfigError(
            f"command line: {wrong}: only applies to bicliques, but {run_dir} holds results of the problem "
            f"{_problem(run_dir)!r}; leave it out"
        )


def compared_by_problem(old: Path, new: Path, out: Path | None, limit: int, as_json: bool) -> bool | None:
    """Compare two runs by their problem and show the result; None if the problem has no comparison.

    Parameters
    ----------
    old, new : Path
        Run directories.
    out : Path or None
        Directory for all differences.
    limit : int
        Number of results to show of each kind.

    Raises
    ------
    PublishError
        The runs have different problems.
    """
    problems = [_problem(run) for run in (old, new)]
    known = next((each for each in problems if each is not None and is_here(each)), None)
    diff = None if known is None else publication_of(known).diff
    if diff is None:
        return None
    if problems[0] != problems[1]:
        raise PublishError(
            f"{old} and {new}: have results of the problems {problems[0]} and {problems[1]}; expected runs of "
            "one problem; name two such runs"
        )
    found = diff(old, new, limit, out)
    show.differences(old, new, found, out, as_json)
    return found.n_same < max(found.n_old, found.n_new)


def _problem(run_dir: Path) -> str | None:
    return read_manifest(run_dir).problem if (run_dir / MANIFEST_NAME).is_file() else None
