"""Entry of the `mbe` command: handles signals from its first statement on, and imports only what the command needs."""

from __future__ import annotations

import os

try:
    from mbe_stage.pipeline.cli.early_exit import leave_at_signals, nothing_more_to_say

    leave_at_signals()
except KeyboardInterrupt:
    os.write(2, b"interrupted\n")
    os._exit(130)

import atexit
import gc
import re
import resource
import sys

# Libraries and their threads reserve more memory than they use. With less, importing them fails or never ends: OpenBLAS
# retries forever and blocks signals.
_LEAST_BYTES = 1 << 30
# Commands that only read published runs, and help: loading libraries takes most of their time.
_ONLY_READ = {"runs", "top", "explore", "export", "clean", "-h", "--help"}
# New objects before a garbage collection: more than loading libraries makes.
_UNTIL_COLLECTION = 500_000
_OBJECTS_OF_IMPORTS = 50_000


def main() -> None:
    """Entry point of the `mbe` command."""
    if sys.argv[1:] == ["--version"]:
        from mbe_stage.pipeline.package_files import version_line

        print(version_line())
        nothing_more_to_say(0)
        return
    said = refusal()
    if said is not None and not {"-h", "--help"} & {*sys.argv}:
        os.write(2, f"{said}\n".encode())
        nothing_more_to_say(4)
        sys.exit(4)
    if _ONLY_READ & {*sys.argv[1:2], *sys.argv[-1:]} or "_MBE_COMPLETE" in os.environ:
        start_fast()
    else:
        # Imported objects stay, so collecting garbage among them would only waste a tenth of the start-up time.
        gc.set_threshold(_OBJECTS_OF_IMPORTS)
    line = " ".join([*sys.argv, ""])
    if re.search(r" --engine[ =](cuda|rapids) ", line) and not re.search(r" --(devices|workers|cluster)\b", line):
        from mbe_stage.device.early_context import begin_context

        begin_context()
    from mbe_stage.pipeline.cli import app
    from mbe_stage.pipeline.execution import process

    process.claim()
    app.main()


def start_fast() -> None:
    """Load libraries and configure Python for a short process that computes nothing.

    Garbage is collected rarely and not at exit, NumPy starts no threads for linear algebra, and Pydantic does not look
    for plug-ins. The user's own settings are kept.
    """
    gc.set_threshold(_UNTIL_COLLECTION)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")


def refusal() -> str | None:
    """Return the error for an address space (``ulimit -v``) that is too small for anything but help, or None."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= _LEAST_BYTES:
        return None
    return (
        f"error: out of memory: the address space is limited to {limit:,} bytes (ulimit -v); expected "
        f"at least {_LEAST_BYTES:,}; raise the limit"
    )


if __name__ == "__main__":
    main()
