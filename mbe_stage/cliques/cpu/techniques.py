"""The search's techniques, each with a switch for the ablation benchmark.

Switches are constants in compiled code, so they cost nothing. The environment variable `MBE_CLIQUES_WITHOUT` names the
techniques to switch off, separated by blanks. The results stay the same. Compiled code is kept separately for each
value of the variable.
"""

from __future__ import annotations

import os

from mbe_stage.errors import InvalidArgument

TECHNIQUES = {
    "order": "roots in degeneracy order, not in the order of the ids",
    "words": "nodes of at most 64 candidates have a word a row; else each packs its rows anew, without subsets",
    "subsets": "subtrees of up to six candidates are finished as a set of subsets in one word",
    "universal": "candidates adjacent to all others join at once",
    "pivot_x": "excluded vertices may be the pivot, not only candidates",
    "dominated": "excluded vertices whose cliques a candidate rules out are dropped when a subgraph is made",
}

_OFF = frozenset(os.environ.get("MBE_CLIQUES_WITHOUT", "").split())
if _OFF - TECHNIQUES.keys():
    raise InvalidArgument(
        f"MBE_CLIQUES_WITHOUT holds {', '.join(sorted(_OFF - TECHNIQUES.keys()))}: "
        f"expected some of {', '.join(TECHNIQUES)}"
    )

ORDER = "order" not in _OFF
WORDS = "words" not in _OFF
SUBSETS = "subsets" not in _OFF
UNIVERSAL = "universal" not in _OFF
PIVOT_X = "pivot_x" not in _OFF
DOMINATED = "dominated" not in _OFF
