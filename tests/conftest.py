"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

import hypothesis
import pytest
from pytest_timeout import Settings

# Behind `nohup`, or in the background of a script, these are ignored, and so they would be in every command that a test
# starts: it would not end at what the test sends.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

# How long an example takes is the machine's business, and what else runs there.
hypothesis.settings.register_profile("whatever the machine", deadline=None)
hypothesis.settings.load_profile("whatever the machine")


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool | None:
    """Say which test took too long, and where it is; the plugin would print the stacks of all threads beside it."""
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


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real graphs: `MBE_DATA`, or `../shared/data` beside the checkout."""
    given = os.environ.get("MBE_DATA")
    directory = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (directory / "southern_women.npz").is_file():
        pytest.skip(f"no real graphs in {directory}: set MBE_DATA to a directory that holds southern_women.npz")
    return directory
