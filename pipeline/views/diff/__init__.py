"""Compare two runs: which bicliques are new, gone, grown, shrunk or changed, and their partners.

Groups with the same `biclique_key` are the same. Groups that only one run has are paired, one partner each:

- *grown*: the new group has all left members of the gone one and shares a right member with it, or the same with sides
  exchanged;
- *shrunk*: the same with new and gone exchanged. If both apply, the group with more members decides; if sizes are
  equal, neither applies;
- *changed*: neither, and the Jaccard index of their members is at least 0.5. It counts left and right vertices alike; a
  left vertex never equals a right one.

Pairs are taken by Jaccard index, highest first. Ties go to the smallest exclusive or of the keys, as an unsigned
number. Each group is taken once: if two groups became one, the more similar is its partner and the other is gone.
Groups without a partner are *new* or *gone*.
"""

from mbe_stage.pipeline.views.diff.job import (
    PAIRED,
    STATUSES,
    RunDiff,
    Status,
    compile_steps,
    diff_runs,
    searched_words,
    status_words,
)
from mbe_stage.pipeline.views.diff.members import Difference, largest_differences, rows_with_members
from mbe_stage.pipeline.views.diff.write import difference_batches, partner_batches, write_diff

__all__ = [
    "PAIRED",
    "STATUSES",
    "Difference",
    "RunDiff",
    "Status",
    "compile_steps",
    "diff_runs",
    "difference_batches",
    "largest_differences",
    "partner_batches",
    "rows_with_members",
    "searched_words",
    "status_words",
    "write_diff",
]
