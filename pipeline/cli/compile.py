"""``mbe compile``: compile all code that any command may need; ``mbe clean --cache`` removes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mbe_stage.bicliques import estimation
from mbe_stage.engines import engine_names, get_engine
from mbe_stage.pipeline import verify
from mbe_stage.pipeline.config.model import ExecutionConfig
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.compiling import OnCompile
from mbe_stage.pipeline.execution.tiers import choose_tier
from mbe_stage.pipeline.problems.installed import every_publication
from mbe_stage.pipeline.views import diff
from mbe_stage.problem import problem_named
from mbe_stage.runtime.code_cache import cache_directories, can_keep, clear


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of `compile_everything`.

    Attributes
    ----------
    tier : str
        The tier that the code is for.
    n_steps, n_compiled : int
        Number of all pieces of code, and of the newly compiled ones.
    directories : tuple of Path
        The directories in which later processes look for the code.
    """

    tier: str
    n_steps: int
    n_compiled: int
    seconds: float
    directories: tuple[Path, ...]


def compile_everything(
    engine: str = "auto", on_compile: OnCompile | None = None, problem: str | None = None
) -> Compiled:
    """Compile the code of an engine, and of `mbe verify`, `mbe diff` and `mbe inspect`.

    Parameters
    ----------
    engine : str
        See `execution.engine`.
    problem : str, optional
        Only the engines of this problem; by default those of all.

    Raises
    ------
    InvalidArgument
        There is no such problem.
    EngineUnavailable
        The engine cannot run here.
    PublishError
        Code has to be compiled, but there is no directory for it.
    """
    tier = choose_tier(ExecutionConfig(engine=engine))
    needed = (*tier.compile_steps(), *verify.compile_steps(), *diff.compile_steps(), *estimation.compile_steps())
    left_out = set() if problem is None else _of_others(problem, tier.engine)
    steps = tuple({step.what: step for step in needed if step.what not in left_out}.values())
    n_compiled = sum(not step.is_kept() for step in steps)
    if n_compiled and not can_keep():
        places = " or ".join(str(directory.parent) for directory in cache_directories())
        raise PublishError(
            f"compiled code cannot be saved: cannot write to {places}; expected a writable directory; "
            "set NUMBA_CACHE_DIR to one"
        )
    seconds = sum(tier.compile(steps, on_compile).values())
    return Compiled(tier.name, len(steps), n_compiled, seconds, tuple(d for d in cache_directories() if d.is_dir()))


def clear_cache() -> list[str]:
    """Remove all compiled code; return the removed directories.

    Raises
    ------
    PublishError
        A directory cannot be removed.
    """
    found = clear()
    left = [str(directory) for directory in found if directory.exists()]
    if left:
        raise PublishError(
            f"{', '.join(left)}: cannot be removed; expected a writable directory; run this as its owner"
        )
    return [str(directory) for directory in found]


def _of_others(problem: str, engine: str) -> set[str]:
    """Return the code that only other problems' engines of that name need, including their graphs."""
    needed = {
        each.problem: {
            step.what for step in (*get_engine(each.problem, engine).compile_steps(), *each.graph_steps(None))
        }
        for each in every_publication()
        if engine in engine_names(each.problem)
    }
    own = needed.pop(problem_named(problem).name, set())
    return set().union(*needed.values()) - own
