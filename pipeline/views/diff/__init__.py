"""Two runs compared: which bicliques are new, gone, grown, shrunk or changed, and from what.

Groups are the same in two runs where their `biclique_key` is. Those that only one run has are paired, one partner each:

- *grown*: the new group holds all left members of the gone one and shares a right member with it, or the same with the
  sides exchanged;
- *shrunk*: the same with new and gone exchanged. Where both hold, the one with more members decides; with as many, the
  two are neither;
- *changed*: neither, and the Jaccard of their members is at least 0.5: members in common over members of either, left
  and right vertices counted alike, none of one side ever being one of the other.

Pairs are taken by Jaccard, the highest first; of equals that whose keys have the smallest exclusive or, read as an
unsigned number. A group that has been taken is no partner any more: of two groups that became one, the more similar is
its partner and the other is gone. *new* and *gone* is what has no partner.
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
