"""A check of a published run that shares no code with the engines and with what wrote the run.

It does share the reading of the input: the edges, and how many rows were dropped or were duplicates, come from
`pipeline.ingest`, which the run used too (on the tier `rapids` a run is read by other code). A mistake there is not
found. The models of configuration and manifest are shared as well.

`recipe` computes keys and fingerprints from their written definition, `closure` asks the input graph whether a pair of
sides is complete and maximal, `files`, `rows` and `tables` look at what is on the disk, `fields` at what the manifest
says beside them, `job` puts them in order.
"""

from mbe_stage.compile_ahead import CompileStep
from pipeline.verify import closure, recipe, rows, two_hop
from pipeline.verify.job import DEFAULT_SAMPLE, Check, VerifyReport, verify_run

__all__ = ["DEFAULT_SAMPLE", "Check", "VerifyReport", "compile_steps", "verify_run"]


def compile_steps() -> tuple[CompileStep, ...]:
    """What checking a run needs compiled."""
    return (*closure.compile_steps(), *recipe.compile_steps(), *rows.compile_steps(), *two_hop.compile_steps())
