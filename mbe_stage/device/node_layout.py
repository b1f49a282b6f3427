"""Where things stand that every search with open nodes has: control words, settings, and fields of a node.

A *node* is a part of a search that anybody may go on with. Its children depend on it alone, so they are handed out one
by one with an atomic addition to its cursor. A problem's own words, settings and fields stand behind these.
"""

from __future__ import annotations

__all__ = ["ANYBODYS", "CURSOR", "END", "LINK", "LOW_NODE", "NEEDED", "NEXT_ROOT", "NODE_FIELDS", "NODE_LIMIT"]
__all__ += ["NOTHING", "N_IDLE", "N_NODES", "N_OPEN", "OFFSET", "OWN_CONTROL", "OWN_FIELDS", "OWN_SETTINGS"]
__all__ += ["OWN_STATUS", "POOL_LIMIT", "POOL_SHORT", "POOL_TOP", "QUANTUM_NS", "ROOT", "STATUS", "TIME_OVER", "WORDS"]
__all__ += ["CONTROL_LINE"]

# Control words, int64, each on a cache line of its own.
CONTROL_LINE = 16
STATUS, NEXT_ROOT, N_NODES, POOL_TOP, LOW_NODE, N_IDLE, N_OPEN, NEEDED = (CONTROL_LINE * k for k in range(8))
OWN_CONTROL = 8 * CONTROL_LINE

# Reasons to end a quantum, bits of `STATUS`.
TIME_OVER, POOL_SHORT = 1, 2
OWN_STATUS = 4

# Settings, int64: read only.
POOL_LIMIT, NODE_LIMIT, QUANTUM_NS = range(3)
OWN_SETTINGS = 3

# Fields of a node, int64: where its words begin, how many there are, the node that its warp made before, and how many
# children it has, 0 while it is being written. The cursor has a line of its own.
OFFSET, WORDS, LINK, END = range(4)
OWN_FIELDS = 4
CURSOR = 16
NODE_FIELDS = 32

ANYBODYS = -2
"""In `LINK`: of no warp's own chain."""

NOTHING, ROOT = -1, -2
"""In the place of a node: no work, and a root."""
