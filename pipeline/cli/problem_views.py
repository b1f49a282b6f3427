"""`mbe top` and `mbe diff` for problems that show and compare their own results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mbe_stage.pipeline.cli import show
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.publish.reading import problem_of

__all__ = ["compared_by_problem", "show_by_problem"]


def show_by_problem(
    run_dir: Path, limit: int, vertex: str | None, as_json: bool, of_bicliques: Mapping[str, object]
) -> bool:
    """Show the largest results of a run as its problem does (`Publication.top`).

    False where that shows none, or nothing says whose run it is.

    Parameters
    ----------
    vertex : str or None
        As of `Publication.top`.
    of_bicliques : mapping of str to object
        Options of bicliques, and whether each was given.

    Raises
    ------
    ConfigError
        One of these was given.
    """
    problem = problem_of(run_dir)
    top = None if problem is None or not is_here(problem) else publication_of(problem).top
    if top is None:
        return False
    wrong = next((option for option, value in of_bicliques.items() if value), None)
    if wrong is not None:
        raise ConfigError(
            f"command line: {wrong}: only applies to bicliques, but {run_dir} holds results of the problem "
            f"{problem!r}; "
            "leave it out"
        )
    show.top(run_dir, top(run_dir, limit, vertex), as_json)
    return True


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
    problems = [problem_of(run) for run in (old, new)]
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
