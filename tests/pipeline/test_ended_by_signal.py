"""The real command ended by signals: its output, its exit code, and what it leaves behind."""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import PATIENCE, begun, output_of
from tests.pipeline.output_support import assert_nothing_staged

ROOT = Path(__file__).parents[2]
ENDINGS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated"), signal.SIGHUP: (129, "hung up")}
# The mark appears once the entry module's first statements have run.
COMMAND = "import os; from mbe_stage.pipeline.cli.entry import main; os.write(1, b'mark\\n'); main()"


def start(*arguments: object, code: str = COMMAND, **options: object) -> subprocess.Popen:
    """Start the command; return once its first lines have run."""
    process = begun([sys.executable, "-c", code, *arguments], cwd=ROOT, **options)
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        output_of(process, 0)
    assert os.read(process.stdout.fileno(), 5) == b"mark\n"
    return process


def end(process: subprocess.Popen) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr."""
    out, err = output_of(process)
    return process.returncode, out.decode(), err.decode()


def seconds_until(process: subprocess.Popen, happened) -> float:
    begun_at = time.perf_counter()
    while not happened():
        assert process.poll() is None, end(process)
        if time.perf_counter() - begun_at > PATIENCE:
            output_of(process, 0)
        time.sleep(0.01)
    return time.perf_counter() - begun_at


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A crown of 2^40 bicliques."""
    path = tmp_path / "crown.csv"
    pairs = [f"u{left},v{right}" for left in range(40) for right in range(40) if left != right]
    path.write_text("\n".join(["left,right", *pairs]) + "\n")
    return path


def enumeration(edges: Path, out: Path) -> list[object]:
    # The limit ends the search if its test was killed.
    return ["enumerate", edges, "--out", out, "--engine", "reference", "--time-limit", 600]


def is_staged(out: Path) -> bool:
    return any(path.is_dir() for path in (out / ".staging").glob("*"))


def end_at(process: subprocess.Popen, delay: float, number: signal.Signals) -> tuple[int, str, str]:
    time.sleep(delay)
    process.send_signal(number)
    return end(process)


def moments(n: int) -> list[float]:
    """Return random shares of a whole, one in each of `n` equal parts; the same at every run."""
    chance = random.Random(1)
    return [(part + chance.random()) / n for part in range(n)]


# These signals are handled alike, and all of them come at moments of a run.
OTHERS = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)]
# Few by default, many among the slow tests.
N_MOMENTS = [1, pytest.param(40, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", N_MOMENTS)
def test_ctrl_c_at_moments_of_help(n: int) -> None:
    begun_at = time.perf_counter()
    code, whole, _ = end(start("--help"))
    lasts = time.perf_counter() - begun_at
    assert code == 0
    interrupted = 0
    # Nothing is printed at once, so the first signal is in time on any machine.
    for moment in [0.0, *moments(n)]:
        code, out, err = end_at(start("--help"), lasts * moment, signal.SIGINT)
        # A command that has printed everything may end normally.
        assert (code, err) == (130, "interrupted\n") or (code, out, err) == (0, whole, ""), (moment, code, out, err)
        interrupted += code == 130
    assert interrupted


@pytest.mark.parametrize("n", N_MOMENTS)
def test_signals_at_moments_of_a_run(tmp_path: Path, endless: Path, n: int) -> None:
    out = tmp_path / "out"
    lasts = seconds_until(first := start(*enumeration(endless, out)), lambda: is_staged(out))
    numbers = itertools.cycle([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    for moment, number in zip([0.0, *moments(n)], numbers, strict=False):
        process = start(*enumeration(endless, out)) if moment else first
        code, said, err = end_at(process, 1.2 * lasts * moment, number)
        expected, word = ENDINGS[number]
        assert (code, said) == (expected, ""), (moment, code, err)
        assert err.splitlines()[-1] in (word, f"{word}: nothing was published"), (moment, err)
        assert "Traceback" not in err
        assert "Exception" not in err
        assert not is_staged(out), (moment, err)
        assert not (out / "latest").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, *OTHERS])
def test_a_signal_ends_a_run_and_clears_up(tmp_path: Path, endless: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    process = start(*enumeration(endless, out))
    seconds_until(process, lambda: is_staged(out))
    code, _, err = end_at(process, 0, number)
    expected, word = ENDINGS[number]
    assert (code, err.splitlines()[-1]) == (expected, f"{word}: nothing was published")
    assert_nothing_staged(out)


def test_ctrl_c_in_the_first_statements() -> None:
    """The handler is still being imported."""
    code = (
        "import os, signal, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mbe_stage.pipeline.cli.early_exit': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "os.write(1, b'mark\\n')\n"
        "import mbe_stage.pipeline.cli.entry\n"
    )
    assert end(start(code=code)) == (130, "", "interrupted\n")


def test_the_entry_imports_nothing_of_the_packages_but_the_handler() -> None:
    code = "import sys, os; before = set(sys.modules); import mbe_stage.pipeline.cli.entry\n"
    code += "new = set(sys.modules) - before\n"
    code += "os.write(1, b'mark\\n'); print(*sorted(new - sys.stdlib_module_names))"
    ours = "mbe_stage mbe_stage.lazy_names mbe_stage.pipeline mbe_stage.pipeline.cli "
    ours += "mbe_stage.pipeline.cli.early_exit mbe_stage.pipeline.cli.entry"
    assert end(start(code=code)) == (0, f"{ours}\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, *OTHERS])
def test_signals_ignored_at_the_start_stay_ignored(tmp_path: Path, number: signal.Signals) -> None:
    """`nohup` starts commands like this."""
    edges, out = tmp_path / "edges.csv", tmp_path / "out"
    edges.write_text("left,right\na,b\n")
    process = start(*enumeration(edges, out), preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    code, said, err = end_at(process, 0, number)
    assert code == 0, err
    assert said.startswith("1 maximal biclique")
    assert (out / "latest").exists()


@pytest.mark.parametrize("number", ENDINGS)
def test_signals_at_exit_print_nothing(number: signal.Signals) -> None:
    code = (
        "import atexit, signal, sys\n"
        f"atexit.register(lambda: signal.raise_signal({int(number)}))\n"
        "from mbe_stage.pipeline.cli.entry import main; sys.stdout.write('mark\\n'); sys.stdout.flush(); main()"
    )
    code, out, err = end(start("--help", code=code))
    assert (code, err) == (0, "")
    assert "Exit codes" in out


def test_a_closed_terminal(tmp_path: Path, endless: Path) -> None:
    """SIGHUP comes once the terminal is closed: nothing can be printed, and the progress bar cannot be erased."""
    out = tmp_path / "out"
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    process = start(*enumeration(endless, out), stdin=theirs, preexec_fn=lambda: os.dup2(0, 2), start_new_session=True)
    os.close(theirs)

    def staged_while_the_terminal_is_read() -> bool:
        # An unread terminal fills up, and the command would block.
        with suppress(BlockingIOError):
            os.read(ours, 1 << 16)
        return is_staged(out)

    seconds_until(process, staged_while_the_terminal_is_read)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert end(process)[0] == 129
    assert_nothing_staged(out)
