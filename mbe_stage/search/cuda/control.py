"""Layout of device memory shared by all searches with open nodes: control words, settings, nodes and warp states.

A *node* is a part of a search that any warp can continue. Its children depend on the node alone, so they are handed out
one by one with an atomic addition to its cursor. Each problem's own words, settings and fields follow the shared ones.
"""

from __future__ import annotations

# Control words, int64, each on its own cache line.
CONTROL_LINE = 16
STATUS, NEXT_ROOT, N_NODES, POOL_TOP, LOW_NODE, N_IDLE, N_OPEN, NEEDED = (CONTROL_LINE * k for k in range(8))
OWN_CONTROL = 8 * CONTROL_LINE

# Reasons to end a quantum: bits of `STATUS`.
TIME_OVER, POOL_SHORT = 1, 2
OWN_STATUS = 4

# Settings, int64, read-only. The largest frame is `NARROW` wide; a warp has `MOST_ENTRIES` nodes and `OWN_WORDS` words.
POOL_LIMIT, NODE_LIMIT, QUANTUM_NS, NARROW, MOST_ENTRIES, OWN_WORDS = range(6)
OWN_SETTINGS = 6

# Fields of a node, int64: offset and number of its words; its warp's previous node; and its number of children, 0 while
# it is being written. The cursor has its own cache line.
OFFSET, WORDS, LINK, END = range(4)
OWN_FIELDS = 4
CURSOR = 16
NODE_FIELDS = 32

ANYBODYS = -2
"""Value of `LINK` for a node that is in no warp's chain."""

NOTHING, ROOT = -1, -2
"""In place of a node: no work, or a root."""

# State of a warp, int64: its unfinished task, idle nanoseconds, nanoseconds before it walked frames, and the numbers of
# visited frame nodes and wide nodes.
PENDING_NODE, PENDING_CHILD, IDLE_NS, SETUP_NS, N_VISITED, N_WIDE_NODES = range(6)
OWN_STATE = 6
STATE_FIELDS = 16
