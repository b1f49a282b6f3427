"""Run the demo: ``python -m examples.demo [--out DIR]`` from the repository root; `make run` does."""

import sys

from mbe_stage.pipeline.cli.early_exit import leave_at_signals, nothing_more_to_say

if __name__ == "__main__":
    # Ctrl-C is one line from here on; what is imported next takes a second.
    leave_at_signals()
    from examples.demo.job import main

    code = main()
    nothing_more_to_say(code)
    sys.exit(code)
