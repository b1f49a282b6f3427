"""Entry of the `mbe` command: handles signals from its first statement on, and loads only what the answer needs."""

from __future__ import annotations

import os

try:
    from mbe_stage.pipeline.cli.early_exit import leave_at_signals, nothing_more_to_say

    leave_at_signals()
except KeyboardInterrupt:
    os.write(2, b"interrupted\n")
    os._exit(130)

import resource
import sys

# Libraries and their threads reserve more memory than they use. With less, importing them fails or never ends: OpenBLAS
# retries forever and blocks signals.
_LEAST_BYTES = 1 << 30


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
    from mbe_stage.pipeline.cli import app
    from mbe_stage.pipeline.execution import process

    process.claim()
    app.main()


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
