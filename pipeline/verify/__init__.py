"""An independent check of a published run; nothing here shares code with the engines or with what wrote the run.

`recipe` computes keys and fingerprints from their written definition, `closure` asks the input graph whether a pair of
sides is complete and maximal, `files`, `rows` and `tables` look at what is on the disk, `job` puts them in order.
"""

from pipeline.verify.job import DEFAULT_SAMPLE, Check, VerifyReport, verify_run

__all__ = ["DEFAULT_SAMPLE", "Check", "VerifyReport", "verify_run"]
