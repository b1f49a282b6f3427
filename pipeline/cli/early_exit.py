"""Signals that end the command: while nothing has begun that would have to be undone, and when all has been said.

In between, `pipeline.execution.signals` makes exceptions of them. Imports next to nothing: it is what the command
loads first.
"""

import atexit
import os
import signal
import sys

__all__ = ["ENDINGS", "leave", "leave_at_signals", "nothing_more_to_say"]

# What the command says; the exit code is 128 and the signal's number.
ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
_SAID = 2


def leave(number: int, _frame: object) -> None:
    """Handler: say which signal it was and end the process at once.

    An exception would come up in the midst of an import, and end in a traceback, or in an error of the module's own.
    """
    try:
        os.write(_SAID, f"{ENDINGS[signal.Signals(number)]}\n".encode())
    finally:
        # Where the terminal has gone, nobody is there to be told.
        os._exit(128 + number)


def leave_at_signals() -> None:
    """Have signals of which nobody has decided anything end the process by `leave`; ignored ones stay ignored."""
    for number in ENDINGS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)


def nothing_more_to_say(code: int) -> None:
    """From now on, signals end the process with this code and without a word: only Python's own end is left."""
    try:
        sys.stdout.flush()
    except OSError:
        return  # Python flushes it once more, and says so
    ours = [number for number in ENDINGS if signal.getsignal(number) is leave]
    for number in ours:
        signal.signal(number, lambda *_: os._exit(code))
    # Its very last steps have no handlers, but what is ignored stays ignored.
    atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in ours])
