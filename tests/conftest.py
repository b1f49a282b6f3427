"""Fixtures for all tests."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import hypothesis
import pytest
from pytest_timeout import Settings

from tests.browser import chromium
from tests.commands import Commands
from tests.patience import kill_remaining

# Imports and test collection produce almost no garbage.
gc.disable()
# Set before NumPy is imported, and inherited by child processes: idle threads waste minutes in all.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# `nohup` and background scripts ignore these signals, and commands started by tests would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

# The time of an example depends on the machine's load.
hypothesis.settings.register_profile("whatever the machine", deadline=None)
hypothesis.settings.load_profile("whatever the machine")


# The slowest tests, in this order: started last, one would run alone while the other processes are done.
LONGEST = (
    "tests/mbe_stage/test_cuda_without_gpu.py::test_the_kernels_in_lockstep_lanes",
    "tests/mbe_stage/test_cuda_without_gpu.py::test_the_same_bicliques_without_any_technique",
    "tests/flows/test_flow_server.py",
    "tests/test_readme.py::test_blocks_run_and_print_what_is_shown",
    "tests/pipeline/test_cluster_faults.py",
    "tests/mbe_stage/test_cuda_without_gpu.py",
    "tests/rapids/test_resume.py",
    "tests/mbe_stage/pq_counts/test_engine_cuda.py",
    "tests/pipeline/test_ended_by_signal.py::test_signals_at_moments_of_a_run",
    "tests/pipeline/test_resume_killed.py",
    "tests/pipeline/test_crash.py::test_killed_at_random_moments",
)


# When slow tests are excluded, run one in this many of a test's examples, but at least this many.
ONE_EXAMPLE_IN, LEAST_EXAMPLES = 4, 25


def with_fewer_examples(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    asked = getattr(test, "_hypothesis_internal_use_settings", None)
    if asked is not None:
        n = min(asked.max_examples, max(LEAST_EXAMPLES, asked.max_examples // ONE_EXAMPLE_IN))
        test._hypothesis_internal_use_settings = hypothesis.settings(asked, max_examples=n)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run long tests first: pytest-xdist gives each process a part of the list, and each should start with some."""
    if "not slow" in config.option.markexpr:
        for item in items:
            with_fewer_examples(item)

    def rank(item: pytest.Item) -> int:
        return next((n for n, prefix in enumerate(LONGEST) if item.nodeid.startswith(prefix)), len(LONGEST))

    ordered = sorted(items, key=rank)
    n_long = sum(rank(item) < len(LONGEST) for item in items)
    n_parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    others = iter(ordered[n_long:])
    items.clear()
    for part in range(n_parts):
        items += ordered[part:n_long:n_parts]
        items += itertools.islice(others, max(0, len(ordered) * (part + 1) // n_parts - len(items)))


def pytest_collection_finish() -> None:
    """Exempt all imports so far from garbage collection; scanning them repeatedly takes minutes in all."""
    gc.enable()
    gc.collect()
    gc.freeze()
    # Every search for itemsets asks, and counting takes some hundredths of a second.
    gc.get_freeze_count = functools.cache(gc.get_freeze_count)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool | None:
    """Name the test that timed out and its position; the plugin would also print the stacks of all threads."""
    if settings.method != "signal":
        return None

    def fail(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"{item.nodeid}: not done after {settings.timeout:g} s")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


TOYS = """[mbe_stage.problems]
butterflies = tests.toys.butterflies.problem:PROBLEM
smaller_sides = tests.toys.smaller_sides.output:OUTPUT
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder with the entry points of the toys, as if the package were installed."""
    from mbe_stage.pipeline.problems.installed import forget_publications
    from mbe_stage.problem import forget

    def look_again() -> None:
        forget()
        forget_publications()

    folder = tmp_path / "installed" / "toys-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(TOYS)
    monkeypatch.syspath_prepend(str(folder.parent))
    look_again()
    yield folder.parent
    look_again()


@pytest.fixture
def installed_environment(installed: Path) -> dict[str, str]:
    """Return environment variables that make the toys visible to other processes."""
    return {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{Path(__file__).parents[1]}"}


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands in forked processes: they start at once and end as usual."""
    made = Commands(tmp_path_factory.mktemp("commands"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the pages of a module; see `tests/browser.py`."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the directory of real graphs: `MBE_DATA`, or `../shared/data` next to the checkout."""
    given = os.environ.get("MBE_DATA")
    directory = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (directory / "southern_women.npz").is_file():
        pytest.skip(f"no real graphs in {directory}: set MBE_DATA to a directory that holds southern_women.npz")
    return directory


@pytest.fixture(autouse=True)
def _kill_remaining() -> Iterator[None]:
    """Kill processes that a failed test has left running."""
    with kill_remaining():
        yield


@pytest.fixture(autouse=True)
def _restored_loggers() -> Iterator[None]:
    """Restore the loggers after a test that ran a command in this process."""
    loggers = [logging.getLogger(name) for name in ("mbe_stage", "mbe_stage.pipeline")]
    before = [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers]
    yield
    for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate
