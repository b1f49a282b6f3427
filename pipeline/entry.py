"""Entry of the `mbe` command: hears signals from its first statement on, and loads only what the answer needs."""

import os
import sys

__all__ = ["main"]

try:
    from pipeline.leaving import leave_at_signals, nothing_more_to_say

    leave_at_signals()
except KeyboardInterrupt:
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """Entry point of the `mbe` command."""
    if sys.argv[1:] == ["--version"]:
        from pipeline.version import version_of

        print(f"mbe {version_of('mbe-stage')}")
        nothing_more_to_say(0)
        return
    from pipeline.address_space import refusal

    said = refusal()
    if said is not None and not {"-h", "--help"} & {*sys.argv}:
        os.write(2, f"{said}\n".encode())
        nothing_more_to_say(4)
        sys.exit(4)
    from pipeline import cli, process

    process.claim()
    cli.main()


if __name__ == "__main__":
    main()
