"""The search's techniques, each with a switch for the ablation benchmark.

They are constants when the search is compiled, so a switch costs nothing; the environment variable `MBE_CPU_WITHOUT`
names the techniques to leave out, separated by blanks. The results are the same without any of them. Compiled code
is kept apart for each value of the variable.
"""

from __future__ import annotations

import os

from mbe_stage.errors import InvalidArgument

TECHNIQUES = {
    "twins": "one vertex stands for all with the same neighbours",
    "side": "the side with fewer two-step paths is enumerated",
    "order": "roots in ascending degree",
    "merged_columns": "below list children, columns that candidates cannot tell apart stand as one",
    "closed_sets": "subtrees of up to six columns are finished as a set of subsets in one word",
    "column_groups": "the six columns may be groups",
    "dominated": "candidates inside an excluded row are dropped when a node is made",
    "distinct_excluded": "excluded rows are kept distinct, single columns in one word",
}

_OFF = frozenset(os.environ.get("MBE_CPU_WITHOUT", "").split())
if _OFF - TECHNIQUES.keys():
    raise InvalidArgument(
        f"MBE_CPU_WITHOUT holds {', '.join(sorted(_OFF - TECHNIQUES.keys()))}: expected some of {', '.join(TECHNIQUES)}"
    )

TWINS = "twins" not in _OFF
SIDE = "side" not in _OFF
ORDER = "order" not in _OFF
MERGED_COLUMNS = "merged_columns" not in _OFF
CLOSED_SETS = "closed_sets" not in _OFF
COLUMN_GROUPS = CLOSED_SETS and "column_groups" not in _OFF
DOMINATED = "dominated" not in _OFF
DISTINCT_EXCLUDED = "distinct_excluded" not in _OFF
