"""An independent check of a published run; nothing here shares code with the engines or with what wrote the run.

`recipe` computes keys and fingerprints from their written definition, `closure` asks the input graph whether a pair of
sides is complete and maximal, `files`, `rows` and `tables` look at what is on the disk, `job` puts them in order.
"""

from mbe_stage.compile_ahead import CompileStep
from pipeline.verify import closure, rows, two_hop
from pipeline.verify.job import DEFAULT_SAMPLE, Check, VerifyReport, verify_run

__all__ = ["DEFAULT_SAMPLE", "Check", "VerifyReport", "compile_steps", "verify_run"]


def compile_steps() -> tuple[CompileStep, ...]:
    """What checking a run needs compiled."""
    return (*closure.compile_steps(), *rows.compile_steps(), *two_hop.compile_steps())
