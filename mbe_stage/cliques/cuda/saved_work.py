"""Work in progress as arrays on the host: open nodes, roots and unwritten cliques, saved between two quanta.

An unfinished root is saved as one that has not begun. `check` allows any bits in rows of a matrix, except loops and
extra columns, since they only choose among candidates.
"""

from __future__ import annotations

import numpy as np

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.memory_plan import SearchSizes
from mbe_stage.device import LINE_WORDS, whole_lines
from mbe_stage.search.cuda import saved_work
from mbe_stage.search.cuda.saved_work import Arrays, are_below, check_arrays, damaged

VERSION = 1
"""Version of the layout of the arrays."""
_DTYPES = {**saved_work.DTYPES, "sizes": np.int32, "members": np.int32}
_COMMON = [layout.OFFSET, layout.WORDS, layout.LINK, layout.END, layout.KIND, layout.N_EXCLUDED, layout.N_BASE]
_KEPT = {
    layout.WIDE: [*_COMMON, layout.CURSOR, layout.N_CANDIDATES],
    layout.FRAME: [*_COMMON, layout.CURSOR, layout.JOINED, layout.CANDIDATES, layout.BRANCHES],
}
_MASKS = [layout.JOINED, layout.CANDIDATES, layout.BRANCHES]


def nodes_of(fields: np.ndarray, pending: np.ndarray) -> np.ndarray:
    """Return nodes as in `saved_work.nodes_of`, without values in unused fields."""
    nodes = saved_work.nodes_of(fields, pending)
    kept = np.zeros_like(nodes)
    for kind, names in _KEPT.items():
        rows = np.flatnonzero(nodes[:, layout.KIND] == kind)[:, None]
        kept[rows, names] = nodes[rows, names]
    return kept


def roots_of(arrays: Arrays) -> np.ndarray:
    """Return the vertices of begun roots with work left, without duplicates."""
    return np.unique(arrays["words"][_bases(arrays["nodes"])])


def _bases(nodes: np.ndarray) -> np.ndarray:
    """Return the offset of the base of each node."""
    is_frame = nodes[:, layout.KIND] == layout.FRAME
    return nodes[:, layout.OFFSET] + np.where(is_frame, layout.BASE_AT, nodes[:, layout.N_CANDIDATES])


def check(arrays: Arrays, facts: SearchSizes, n_vertices: int) -> None:
    """Check that the arrays are work of this graph and mode, as far as kernels rely on it.

    Raises
    ------
    InvalidArgument
        They are not; the message names the array.
    """
    check_arrays(arrays, _DTYPES, n_vertices)
    nodes, words, sizes = (arrays[name] for name in ("nodes", "words", "sizes"))
    if not _are_nodes(nodes, words.size, facts):
        raise damaged("nodes")
    if not all(_is_block(node, words, facts, n_vertices) for node in nodes):
        raise damaged("words")
    if (sizes < 1).any() or sizes.sum(dtype=np.int64) != arrays["members"].size:
        raise damaged("sizes")
    if not are_below(arrays["members"], n_vertices):
        raise damaged("members")


def _are_nodes(nodes: np.ndarray, n_words: int, facts: SearchSizes) -> bool:
    """Return True if the fields of all nodes fit each other, the words and the graph."""
    offset, size, link, end, kind, n_excluded, n_base = nodes[:, _COMMON].T
    cursor, n = nodes[:, layout.CURSOR], nodes[:, layout.N_CANDIDATES]
    is_frame = kind == layout.FRAME
    if not (is_frame | (kind == layout.WIDE)).all():
        return False
    small = (offset, size, end, cursor, n, n_excluded, n_base)
    if not all(are_below(field, 1 << 40) for field in small) or (link != layout.ANYBODYS).any():
        return False
    joined, candidates, branches = nodes[:, _MASKS].T
    n_members = n_base + np.where(is_frame, np.bitwise_count((joined | candidates).view(np.uint64)), n)
    most = facts.most_later + 1, facts.most_neighbours + 1
    are_right = (n_base > 0) & (n_members <= most[0]) & (n_base + n_excluded + n <= most[1])
    # A frame may list half of its excluded rows again.
    are_right &= ~is_frame | (2 * n_base + 3 * n_excluded <= 3 * most[1])
    n_row = (n + 31) // 32
    of_wide = n + n_base + n_row + (n + n_excluded) * n_row
    are_right &= size == np.where(is_frame, layout.BASE_AT + 2 * (n_base + n_excluded), of_wide)
    are_right &= (cursor < end) & (is_frame | (n > 0))
    are_right &= (joined & candidates == 0) & (branches & ~candidates == 0)
    are_right &= ~is_frame | (end <= np.bitwise_count(branches.view(np.uint64)))
    are_right &= (offset % LINE_WORDS == 0) & (offset + size <= n_words)
    # Nodes of one stack share a block. Other overlapping blocks would overwrite each other when they are moved.
    begins, ends = np.unique(np.stack([offset, offset + whole_lines(size)], axis=1), axis=0).T
    are_right &= bool((begins[1:] >= ends[:-1]).all())
    others = np.ones(nodes.shape, np.bool_)
    for of_kind, names in _KEPT.items():
        others[np.flatnonzero(kind == of_kind)[:, None], names] = False
    return bool(are_right.all()) and not nodes[others].any()


def _is_block(node: np.ndarray, words: np.ndarray, facts: SearchSizes, n_vertices: int) -> bool:
    """Return True if a node's block has distinct vertices in order, and rows without loops or extra columns."""
    block = words[node[layout.OFFSET] :][: node[layout.WORDS]]
    n_base = int(node[layout.N_BASE])
    if node[layout.KIND] == layout.WIDE:
        n = int(node[layout.N_CANDIDATES])
        n_row = (n + 31) // 32
        ids, base, _ = np.split(block.astype(np.int64), [n, n + n_base])
        branches, rows = _bits(block[n + n_base :][:n_row]), block[n + n_base + n_row :].reshape(-1, n_row)
        beyond = rows[:, -1] >> np.uint32(n - 32 * (n_row - 1)) if n % 32 else np.zeros(1, np.uint32)
        own = np.arange(n)
        loops = rows[own, own // 32] >> (own % 32).astype(np.uint32) & np.uint32(1)
        if beyond.any() or loops.any() or branches[n:].any() or branches.sum() < node[layout.END]:
            return False
        return _are_vertices(ids, base, n_vertices)
    columns = np.flatnonzero(_bits(node[[layout.JOINED, layout.CANDIDATES]].view(np.uint32)).reshape(2, -1).any(axis=0))
    ids = block[layout.IDS_AT :][columns].astype(np.int64)
    base, places = block[layout.BASE_AT :][: 2 * n_base].astype(np.int64).reshape(-1, 2).T
    loops = block[2 * columns + columns // 32] >> (columns % 32).astype(np.uint32) & np.uint32(1)
    if loops.any() or not _are_vertices(ids, base, n_vertices):
        return False
    if facts.mode != layout.MEMBERS:
        return True
    # As `writing.place_members` writes them, as far as these columns need them.
    below, in_order = places & 127, np.sort(base)
    are_placed = np.array_equal(block[layout.EARLIER_AT :][columns], np.searchsorted(in_order, ids))
    are_placed = (
        are_placed and np.array_equal(places >> 7, np.searchsorted(in_order, base)) and bool((below <= 64).all())
    )
    return are_placed and np.array_equal(np.searchsorted(columns, below), np.searchsorted(ids, base))


def _bits(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")


def _are_vertices(ids: np.ndarray, base: np.ndarray, n_vertices: int) -> bool:
    both = np.concatenate([ids, base])
    return are_below(both, n_vertices) and bool((np.diff(ids) > 0).all()) and np.unique(both).size == both.size
