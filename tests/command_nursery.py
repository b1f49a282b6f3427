"""Run commands and Python snippets in processes that start at once: forks of one that has loaded what they need.

``python -m tests.command_nursery SOCKET PART`` loads a part and prints ``ready``. ``everything`` is every module of
`pipeline`, the compiled code and the templates of reports. ``libraries`` is no module of this project, so a snippet can
replace libraries before it imports the project. Then each connection asks for one process: JSON with ``arguments`` of
`mbe` or the ``code`` of a snippet, ``cwd`` and ``environment``, plus three descriptors for its streams. The answer is
the exit code. The client is `tests.commands`.
"""

from __future__ import annotations

import array
import gc
import json
import os
import pkgutil
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from typing import Any

from tests.patience import end_with

__all__ = ["main"]

_STREAMS = 3
_LIBRARIES = ("numba", "pandas", "pyarrow.compute", "pyarrow.dataset", "scipy.io", "scipy.sparse")


def main(address: str, part: str) -> None:
    """Serve until killed."""
    gc.disable()
    for name in _LIBRARIES:
        import_module(name)
    if part == "everything":
        import_everything()
        load_what_is_compiled()
    # Commands need not collect the garbage of imports.
    gc.freeze()
    gc.enable()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            reap_ended()
            nursery = os.getpid()
            # The client waits for the command before it sends the next one.
            if os.fork() == 0:
                end_with(nursery)
                listener.close()
                answer(connection)
            connection.close()


def import_everything() -> None:
    """Import what commands import lazily. No command runs here, because a fork would lose its threads."""
    import mbe_stage.pipeline

    for found in pkgutil.walk_packages(mbe_stage.pipeline.__path__, "mbe_stage.pipeline."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):  # optional libraries
                import_module(found.name)


def load_what_is_compiled() -> None:
    """Load the machine code that is cached, and compile templates: most of the time of a small run."""
    from mbe_stage.bicliques import estimation
    from mbe_stage.pipeline import verify
    from mbe_stage.pipeline.execution.compiling import host_steps
    from mbe_stage.pipeline.report import wording
    from mbe_stage.pipeline.views import diff
    from mbe_stage.runtime.compile_ahead import load_kept

    load_kept((*host_steps("cpu"), *verify.compile_steps(), *diff.compile_steps(), *estimation.compile_steps()))
    for template in files("mbe_stage.pipeline.report").joinpath("templates").iterdir():
        if template.name.endswith(".html"):
            wording._environment().get_template(template.name)


def reap_ended() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def answer(connection: socket.socket) -> None:
    """Run one command in a child process and send its exit code."""
    content, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(_STREAMS * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    child = os.fork()
    if child == 0:
        run(json.loads(content), streams)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run(asked: dict[str, Any], streams: array.array) -> None:
    """Run it in this process and exit as an interpreter does."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        code = done(asked)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - the process ends here, and says why
        traceback.print_exc()
    finally:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        os._exit(code)


def done(asked: dict[str, Any]) -> int:
    if "code" in asked:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.argv, sys.path[0] = ["-c", *asked.get("arguments", [])], asked["cwd"]
        exec(compile(asked["code"], asked.get("file", "<string>"), "exec"), {"__name__": "__main__"})
        return 0
    from mbe_stage.pipeline.cli import entry

    sys.argv = ["mbe", *asked["arguments"]]
    entry.main()
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
