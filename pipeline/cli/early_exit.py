"""Handling of signals that end the command before its work begins and after its last output.

In between, `pipeline.execution.signals` turns them into exceptions. This module is loaded first, so it imports next to
nothing.
"""

import atexit
import os
import signal
import sys

# The message; the exit code is 128 plus the signal's number.
ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
_SAID = 2


def leave(number: int, _frame: object) -> None:
    """Handle a signal: print its name and end the process at once.

    An exception would be raised in the middle of an import, and end in a traceback or in an error of that module.
    """
    try:
        os.write(_SAID, f"{ENDINGS[signal.Signals(number)]}\n".encode())
    finally:
        # The terminal may be gone.
        os._exit(128 + number)


def leave_at_signals() -> None:
    """Install `leave` for signals with default handling; ignored signals stay ignored."""
    for number in ENDINGS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)


def nothing_more_to_say(code: int) -> None:
    """Let signals end the process silently with this code, because only Python's own shutdown is left."""
    try:
        sys.stdout.flush()
    except OSError:
        return  # Python flushes it once more, and reports the error.
    ours = [number for number in ENDINGS if signal.getsignal(number) is leave]
    for number in ours:
        signal.signal(number, lambda *_: os._exit(code))
    # Python's very last steps have no handlers, but ignored signals stay ignored.
    atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in ours])
