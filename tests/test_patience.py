"""The helper that starts processes and waits for them: its messages on hangs and failures, and its clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import begun, completed, kill_remaining, output_of

ROOT = Path(__file__).parent.parent
HANGS = "import sys, time; print('so far', flush=True); print('trouble', file=sys.stderr, flush=True); time.sleep(600)"


def test_output_in_time_is_returned():
    done = completed([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_command_that_hangs_is_named_with_its_output_so_far():
    with pytest.raises(pytest.fail.Exception) as failure:
        completed([sys.executable, "-c", HANGS], patience=2)
    said = str(failure.value)
    assert said.startswith(sys.executable)
    assert "not done after 2 s\n--- stdout\nso far\n\n--- stderr\ntrouble\n" in said
    # No stacks, of this thread or others.
    assert failure.value.pytrace is False
    assert "Thread" not in said


def test_children_of_a_hanging_command_are_ended(tmp_path: Path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(pytest.fail.Exception, match="not done after 3 s"):
        completed([sys.executable, "-c", parent], patience=3)
    if (tmp_path / "pid").exists():
        assert_ends(int((tmp_path / "pid").read_text()))


def assert_ends(pid: int) -> None:
    for _ in range(1000):
        if not is_running(pid):
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail(f"process {pid} is still running")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_unexpected_exit_code_shows_the_output():
    with pytest.raises(pytest.fail.Exception, match=r"(?s)exit code 1\n--- stdout\nnothing\n.*no such thing"):
        completed([sys.executable, "-c", "raise ValueError('no such thing')"], check=True)


def test_ending_a_process_spares_the_group_of_the_tests():
    process = begun([sys.executable, "-c", HANGS], stderr=subprocess.DEVNULL)
    with pytest.raises(pytest.fail.Exception, match=r"--- stdout\nso far\n\n--- stderr\nnothing"):
        output_of(process, 2)
    assert process.returncode < 0
    assert os.getpgid(0)


ENDLESS = [sys.executable, "-c", "print('here', flush=True)\nwhile True: pass"]
# Starts an endless process, prints its pid and niceness, and is killed like a pytest that cannot clean up.
KILLED = """
import os, signal
from tests.patience import begun
from tests.test_patience import ENDLESS
process = begun(ENDLESS, **{})
process.stdout.readline()
print(process.pid, os.getpriority(os.PRIO_PROCESS, process.pid), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize(
    ("options", "niceness"),
    [("{}", 0), ("{'start_new_session': True}", 0), ("{'preexec_fn': lambda: os.nice(1)}", 1)],
)
def test_a_killed_process_of_tests_leaves_nothing_behind(options: str, niceness: int):
    done = completed([sys.executable, "-c", KILLED.replace("{}", options)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, found = map(int, done.stdout.split())
    assert_ends(pid)
    # `preexec_fn` ran too.
    assert found == min(19, os.getpriority(os.PRIO_PROCESS, 0) + niceness)


def test_a_failed_test_leaves_nothing_behind():
    def fails() -> None:
        with kill_remaining():
            processes.append(begun(ENDLESS))
            assert processes[0].stdout.readline() == b"here\n"
            raise AssertionError("as a test does")

    processes: list[subprocess.Popen] = []
    with pytest.raises(AssertionError, match="as a test does"):
        fails()
    assert processes[0].returncode == -signal.SIGKILL


def test_every_test_ends_its_processes(request: pytest.FixtureRequest):
    assert "_kill_remaining" in request.fixturenames


def test_earlier_processes_keep_running():
    process = begun(ENDLESS)
    with kill_remaining():
        pass
    assert process.poll() is None


def test_a_hanging_test_shows_no_other_threads(tmp_path: Path):
    """pytest-timeout as `conftest.py` sets it up."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_timeout_set_timer\n")
    (tmp_path / "test_hangs.py").write_text(
        "import threading, time\n"
        "def test_it():\n"
        "    threading.Thread(target=time.sleep, args=(3,), name='somebody-' + 'else').start()\n"
        "    time.sleep(600)\n"
    )
    done = completed(
        [sys.executable, "-m", "pytest", "-o", "timeout=1", "--rootdir", tmp_path, "-q", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_hangs.py::test_it: not done after 1 s" in done.stdout
    assert "time.sleep(600)" in done.stdout
    assert "somebody-else" not in done.stdout + done.stderr
